// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity 0.8.37;

interface IToken {
    function transfer(address to, uint256 amount) external returns (bool);
    function transferFrom(address from, address to, uint256 amount) external returns (bool);
}

/// A market of two tokens whose reserves keep a constant product, with a fee of 0.3 %.
///
/// Storage, which the base state fills in directly: the tokens in slots 0 and 1, both reserves in
/// slot 2 (the first in the low half).
contract Pair {
    IToken public token0;
    IToken public token1;
    uint128 public reserve0;
    uint128 public reserve1;

    event Swap(address indexed trader, bool forward, uint256 amountIn, uint256 amountOut);

    /// Sells `amountIn` of the first token (`forward`) or of the second one.
    function swap(bool forward, uint128 amountIn) external returns (uint256 amountOut) {
        (IToken paid, IToken bought) = forward ? (token0, token1) : (token1, token0);
        (uint256 held, uint256 offered) = forward ? (reserve0, reserve1) : (reserve1, reserve0);

        uint256 effective = uint256(amountIn) * 997;
        amountOut = (offered * effective) / (held * 1000 + effective);
        require(amountOut > 0, "nothing bought");

        uint128 heldAfter = uint128(held + amountIn);
        uint128 offeredAfter = uint128(offered - amountOut);
        (reserve0, reserve1) = forward ? (heldAfter, offeredAfter) : (offeredAfter, heldAfter);

        require(paid.transferFrom(msg.sender, address(this), amountIn), "not paid");
        require(bought.transfer(msg.sender, amountOut), "not delivered");
        emit Swap(msg.sender, forward, amountIn, amountOut);
    }
}
