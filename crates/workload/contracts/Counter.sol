// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity 0.8.37;

/// One of many small contracts with a few slots each.
///
/// Storage, which the base state fills in directly: the count in slot 0, the last caller in slot
/// 1, calls by caller in slot 2.
contract Counter {
    uint256 public count;
    address public last;
    mapping(address => uint256) public calls;

    constructor() {
        count = 1;
        last = msg.sender;
    }

    function poke() external {
        unchecked {
            ++count;
            ++calls[msg.sender];
        }
        last = msg.sender;
    }
}
