// Command chain-maker writes a chain that crosses every fork from Frontier to the second
// blob-parameter fork, for tests that import it: genesis.json, chain.rlp and summary.json.
//
//	chain-maker [-seed N] DIRECTORY
//
// Blocks are executed and hashed by go-ethereum. The same seed gives the same bytes.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/big"
	"math/rand"
	"os"
	"path/filepath"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/consensus/beacon"
	"github.com/ethereum/go-ethereum/consensus/ethash"
	"github.com/ethereum/go-ethereum/core"
	"github.com/ethereum/go-ethereum/core/types"
)

// A block of the summary.
type summaryBlock struct {
	Number       uint64         `json:"number"`
	Hash         common.Hash    `json:"hash"`
	StateRoot    common.Hash    `json:"stateRoot"`
	Fork         string         `json:"fork"`
	Transactions map[string]int `json:"transactions"`
	Ommers       int            `json:"ommers"`
	Withdrawals  int            `json:"withdrawals"`
	// Where the block begins in chain.rlp, and how long it is, in bytes.
	Offset int `json:"offset"`
	Length int `json:"length"`
}

type summary struct {
	Genesis common.Hash    `json:"genesis"`
	Head    common.Hash    `json:"head"`
	Blocks  []summaryBlock `json:"blocks"`
}

func main() {
	seed := flag.Int64("seed", 1, "seed of the chain")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: chain-maker [-seed N] DIRECTORY")
		os.Exit(2)
	}
	if err := run(flag.Arg(0), *seed); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(directory string, seed int64) error {
	keys, err := newAccounts(6)
	if err != nil {
		return err
	}
	genesis := newGenesis(keys)
	filler := &filler{
		config:   genesis.Config,
		accounts: keys,
		random:   rand.New(rand.NewSource(seed)),
	}
	engine := beacon.New(ethash.NewFaker())
	_, blocks, _ := core.GenerateChainWithGenesis(genesis, engine, lastBlock, filler.fill)
	// The terminal difficulty is what the last block of proof of work reached. No block depends on it.
	genesis.Config.TerminalTotalDifficulty = terminalDifficulty(genesis, blocks)
	return write(directory, genesis, blocks)
}

func terminalDifficulty(genesis *core.Genesis, blocks []*types.Block) *big.Int {
	total := new(big.Int).Set(genesis.Difficulty)
	for _, block := range blocks {
		total.Add(total, block.Difficulty())
	}
	return total
}

func write(directory string, genesis *core.Genesis, blocks []*types.Block) error {
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return err
	}
	out := summary{Genesis: genesis.ToBlock().Hash(), Head: blocks[len(blocks)-1].Hash()}
	var chain []byte
	for _, block := range blocks {
		encoded, err := encode(block)
		if err != nil {
			return err
		}
		out.Blocks = append(out.Blocks, summarise(genesis, block, len(chain), len(encoded)))
		chain = append(chain, encoded...)
	}
	if err := os.WriteFile(filepath.Join(directory, "chain.rlp"), chain, 0o644); err != nil {
		return err
	}
	if err := writeJSON(filepath.Join(directory, "genesis.json"), genesis); err != nil {
		return err
	}
	return writeJSON(filepath.Join(directory, "summary.json"), out)
}

func summarise(genesis *core.Genesis, block *types.Block, offset, length int) summaryBlock {
	transactions := map[string]int{}
	for _, transaction := range block.Transactions() {
		transactions[fmt.Sprint(transaction.Type())]++
	}
	return summaryBlock{
		Number:       block.NumberU64(),
		Hash:         block.Hash(),
		StateRoot:    block.Root(),
		Fork:         forkAt(genesis.Config, block),
		Transactions: transactions,
		Ommers:       len(block.Uncles()),
		Withdrawals:  len(block.Withdrawals()),
		Offset:       offset,
		Length:       length,
	}
}

func writeJSON(path string, value any) error {
	encoded, err := json.MarshalIndent(value, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(encoded, '\n'), 0o644)
}
