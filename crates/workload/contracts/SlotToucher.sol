// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity 0.8.37;

/// Reads or writes many slots that lie far apart in the storage trie.
///
/// Storage, which the base state fills in directly: cells in slot 0.
contract SlotToucher {
    mapping(uint256 => uint256) public cells;

    /// Changes `count` cells, `stride` apart.
    function write(uint256 first, uint256 stride, uint256 count) external {
        unchecked {
            for (uint256 i = 0; i < count; ++i) {
                // Every write changes a cell, and one that exists keeps existing.
                cells[first + i * stride] += 1;
            }
        }
    }

    /// Sums `count` cells, `stride` apart.
    function read(uint256 first, uint256 stride, uint256 count) external view returns (uint256 sum) {
        unchecked {
            for (uint256 i = 0; i < count; ++i) {
                sum += cells[first + i * stride];
            }
        }
    }
}
