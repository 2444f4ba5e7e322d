package main

import (
	"encoding/binary"
	"math/big"
	"math/rand"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/params"
	"github.com/holiman/uint256"
)

// Gas of a transaction beside what its input costs.
const callGas = 400_000

var (
	// Leaves a contract with slot 0 set that destroys itself when called:
	// SSTORE(0, 1); return CALLER SELFDESTRUCT
	mortalInit = common.FromHex("60016000556133ff6000526002601ef3")
	// Destroys itself while it is being created.
	stillbornInit = common.FromHex("33ff")
	// Leaves a contract of 32 zero bytes; too dear for the gas that one transaction gives it.
	plainInit = common.FromHex("60206000f3")
)

// A filler puts transactions, ommers and withdrawals into blocks.
type filler struct {
	config   *params.ChainConfig
	accounts []account
	random   *rand.Rand
	// Contracts that destroy themselves when called.
	mortals []common.Address
}

// A block being filled.
type block struct {
	*filler
	gen    *core.BlockGen
	index  int
	number uint64
	signer types.Signer
}

func (f *filler) fill(index int, gen *core.BlockGen) {
	number := gen.Number().Uint64()
	gen.SetCoinbase(common.BigToAddress(big.NewInt(0xc0de00 + f.random.Int63n(4))))
	f.setTime(gen, number)
	if number < daoBlock || number >= daoBlock+10 {
		gen.SetExtra([]byte{byte(number)})
	}
	b := &block{f, gen, index, number, types.MakeSigner(f.config, gen.Number(), gen.Timestamp())}
	b.transact()
	if number < mergeBlock && number > 3 && f.random.Intn(3) == 0 {
		b.addOmmers()
	}
	if b.from(shanghaiTime) {
		for range f.random.Intn(4) {
			b.addWithdrawal()
		}
	}
	if b.from(cancunTime) {
		gen.SetParentBeaconRoot(common.BigToHash(big.NewInt(int64(number))))
	}
}

// Proof of work is early or late, which moves the difficulty.
func (f *filler) setTime(gen *core.BlockGen, number uint64) {
	switch {
	case number < mergeBlock:
		offsets := []int64{-7, -3, 0, 2, 11, 40}
		gen.OffsetTime(offsets[f.random.Intn(len(offsets))])
	case number == mergeBlock:
		gen.OffsetTime(mergeTime - int64(gen.Timestamp()))
	}
}

// Whether the block is one of proof of stake at the time or later.
func (b *block) from(time uint64) bool {
	return b.number >= mergeBlock && b.gen.Timestamp() >= time
}

// Every kind of transaction of the block's fork, in random order, some left out.
func (b *block) transact() {
	kinds := []func(){
		b.transfer, b.touch, b.store, b.store, b.clear, b.log, b.environment, b.burn, b.deploy,
		b.stillborn, b.starvedDeploy, b.create, b.destroy, b.precompile, b.precompile, b.deposit,
		b.starvedStore,
	}
	if b.number >= byzantiumBlock {
		kinds = append(kinds, b.revert)
	}
	if b.number >= constantinopleBlock {
		kinds = append(kinds, b.create2, b.rebirth, b.rewrite)
	}
	if b.from(cancunTime) {
		kinds = append(kinds, b.transient, b.blobFee, b.blobs, b.blobs)
	}
	if b.from(pragueTime) {
		kinds = append(kinds, b.setCode, b.setCode, b.withdraw, b.consolidate)
	}
	for _, kind := range b.random.Perm(len(kinds)) {
		if b.random.Intn(3) > 0 {
			kinds[kind]()
		}
	}
}

// Adds a transaction of a random type that the fork has.
func (b *block) send(to *common.Address, value int64, gas uint64, data []byte) common.Address {
	from := b.accounts[b.random.Intn(len(b.accounts))]
	nonce := b.gen.TxNonce(from.address)
	amount := big.NewInt(value)
	price := b.price()
	list := types.AccessList{{Address: storeAddress, StorageKeys: []common.Hash{{31: 1}}}}
	kinds := 1
	if b.number >= berlinBlock {
		kinds = 2
	}
	if b.number >= londonBlock {
		kinds = 3
	}
	signer := b.signer
	if b.random.Intn(4) == 0 {
		// Unprotected, as before EIP-155.
		signer = types.HomesteadSigner{}
	}
	var inner types.TxData
	kind := b.random.Intn(kinds)
	if kind > 0 {
		gas += params.TxAccessListAddressGas + params.TxAccessListStorageKeyGas
	}
	switch kind {
	case 0:
		inner = &types.LegacyTx{
			Nonce: nonce, GasPrice: price, Gas: gas, To: to, Value: amount, Data: data,
		}
	case 1:
		signer = b.signer
		inner = &types.AccessListTx{
			ChainID: b.config.ChainID, Nonce: nonce, GasPrice: price, Gas: gas, To: to,
			Value: amount, Data: data, AccessList: list,
		}
	case 2:
		signer = b.signer
		inner = &types.DynamicFeeTx{
			ChainID: b.config.ChainID, Nonce: nonce, GasTipCap: big.NewInt(b.random.Int63n(1000)),
			GasFeeCap: price, Gas: gas, To: to, Value: amount, Data: data, AccessList: list,
		}
	}
	b.gen.AddTx(types.MustSignNewTx(from.key, signer, inner))
	return crypto.CreateAddress(from.address, nonce)
}

// Enough for the base fee of this block.
func (b *block) price() *big.Int {
	price := big.NewInt(1_000_000_000)
	if b.number >= londonBlock {
		price.Add(price, b.gen.BaseFee())
	}
	return price
}

func (b *block) call(to common.Address, value int64, data []byte) {
	b.send(&to, value, callGas+40*uint64(len(data)), data)
}

func (b *block) bytes(length int) []byte {
	data := make([]byte, length)
	b.random.Read(data)
	return data
}

func word(value int64) []byte { return common.BigToHash(big.NewInt(value)).Bytes() }

func (b *block) transfer() {
	b.call(common.BytesToAddress(b.bytes(20)), 1+b.random.Int63n(1_000_000), nil)
}

// An account without anything comes into being before EIP-158 and goes when touched after it.
func (b *block) touch() {
	b.call(common.BigToAddress(big.NewInt(0xe000+b.random.Int63n(8))), 0, nil)
}

func (b *block) store() {
	b.call(storeAddress, 0, append(word(b.random.Int63n(40)), word(b.random.Int63())...))
}

func (b *block) clear() {
	b.call(storeAddress, 0, append(word(b.random.Int63n(40)), word(0)...))
}

// Twice the same slot in one block, the second time back to nothing.
func (b *block) rewrite() {
	slot := word(100 + b.random.Int63n(4))
	b.call(storeAddress, 0, append(slot, word(1)...))
	b.call(storeAddress, 0, append(slot, word(0)...))
}

// Runs out of gas at the SSTORE.
func (b *block) starvedStore() {
	to := storeAddress
	b.send(&to, 5, 32_000, append(word(50+b.random.Int63n(40)), word(1)...))
}

func (b *block) log()         { b.call(logAddress, 0, word(b.random.Int63())) }
func (b *block) environment() { b.call(environAddress, 0, nil) }
func (b *block) burn()        { b.call(burnAddress, 1, nil) }
func (b *block) revert()      { b.call(revertAddress, 1, nil) }
func (b *block) transient()   { b.call(transientAddress, 0, nil) }
func (b *block) blobFee()     { b.call(blobFeeAddress, 0, nil) }

func (b *block) deploy() {
	b.mortals = append(b.mortals, b.send(nil, b.random.Int63n(100), callGas, mortalInit))
}

func (b *block) stillborn() { b.send(nil, 3, callGas, stillbornInit) }

// Pays for running the code but not for keeping its result: an empty contract in Frontier, a
// failure later.
func (b *block) starvedDeploy() {
	gas := uint64(params.TxGas)
	if b.number >= homesteadBlock {
		gas = params.TxGasContractCreation
	}
	b.send(nil, 0, gas+2_000, plainInit)
}

func (b *block) create() { b.call(createAddress, 0, mortalInit) }

func (b *block) create2() {
	b.call(create2Address, 0, mortalInit)
	address := crypto.CreateAddress2(create2Address, [32]byte{}, crypto.Keccak256(mortalInit))
	b.mortals = append(b.mortals, address)
}

// Destroys a contract and makes it anew in the same block, at the same address.
func (b *block) rebirth() {
	b.create2()
	b.call(b.mortals[len(b.mortals)-1], 0, nil)
	b.create2()
}

func (b *block) destroy() {
	if len(b.mortals) > 0 {
		b.call(b.mortals[b.random.Intn(len(b.mortals))], b.random.Int63n(2), nil)
	}
}

func (b *block) precompile() {
	addresses := []int64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 0x100}
	address := common.BigToAddress(big.NewInt(addresses[b.random.Intn(len(addresses))]))
	data := b.bytes(b.random.Intn(256))
	if address == common.BytesToAddress([]byte{5}) {
		// Lengths that modexp can afford: 32, 32, 32.
		data = append(append(word(32), append(word(32), word(32)...)...), b.bytes(96)...)
	}
	b.call(address, 0, data)
}

// The input of the deposit event: five fields, each with offset, length and padding.
func (b *block) deposit() {
	lengths := []int{48, 32, 8, 96, 8}
	var heads, tails []byte
	offset := 32 * len(lengths)
	for _, length := range lengths {
		heads = append(heads, word(int64(offset))...)
		tails = append(tails, word(int64(length))...)
		field := make([]byte, (length+31)/32*32)
		copy(field, b.bytes(length))
		tails = append(tails, field...)
		offset += 32 + len(field)
	}
	b.call(depositAddress, 0, append(heads, tails...))
}

// EIP-7002: key and amount, with more than the fee.
func (b *block) withdraw() { b.call(params.WithdrawalQueueAddress, 1_000_000, b.bytes(56)) }

// EIP-7251: two keys, with more than the fee.
func (b *block) consolidate() { b.call(params.ConsolidationQueueAddress, 1_000_000, b.bytes(96)) }

func (b *block) blobs() {
	from := b.accounts[b.random.Intn(len(b.accounts))]
	hashes := make([]common.Hash, 1+b.random.Intn(3))
	for index := range hashes {
		hashes[index] = common.BytesToHash(b.bytes(32))
		hashes[index][0] = 1
	}
	b.gen.AddTx(types.MustSignNewTx(from.key, b.signer, &types.BlobTx{
		ChainID:    uint256.MustFromBig(b.config.ChainID),
		Nonce:      b.gen.TxNonce(from.address),
		GasTipCap:  uint256.NewInt(1),
		GasFeeCap:  uint256.MustFromBig(b.price()),
		Gas:        callGas,
		To:         storeAddress,
		Data:       append(word(b.random.Int63n(40)), word(b.random.Int63())...),
		BlobFeeCap: uint256.NewInt(1_000_000_000_000),
		BlobHashes: hashes,
	}))
}

// EIP-7702: delegates an account, or takes the delegation back; one authorization is void.
func (b *block) setCode() {
	order := b.random.Perm(len(b.accounts))
	from, authority := b.accounts[order[0]], b.accounts[order[1]]
	targets := []common.Address{storeAddress, logAddress, {}}
	sign := func(nonce uint64) types.SetCodeAuthorization {
		signed, err := types.SignSetCode(authority.key, types.SetCodeAuthorization{
			ChainID: *uint256.MustFromBig(b.config.ChainID),
			Address: targets[b.random.Intn(len(targets))],
			Nonce:   nonce,
		})
		if err != nil {
			panic(err)
		}
		return signed
	}
	nonce := b.gen.TxNonce(authority.address)
	b.gen.AddTx(types.MustSignNewTx(from.key, b.signer, &types.SetCodeTx{
		ChainID:   uint256.MustFromBig(b.config.ChainID),
		Nonce:     b.gen.TxNonce(from.address),
		GasTipCap: uint256.NewInt(1),
		GasFeeCap: uint256.MustFromBig(b.price()),
		Gas:       callGas,
		To:        authority.address,
		Data:      append(word(b.random.Int63n(40)), word(b.random.Int63())...),
		AuthList:  []types.SetCodeAuthorization{sign(nonce), sign(nonce + 9)},
	}))
}

// One or two blocks that were late: children of the grandparent.
func (b *block) addOmmers() {
	grandparent := b.gen.PrevBlock(b.index - 2)
	for range 1 + b.random.Intn(2) {
		header := &types.Header{
			ParentHash:  grandparent.Hash(),
			UncleHash:   types.EmptyUncleHash,
			Coinbase:    common.BytesToAddress(b.bytes(20)),
			Root:        grandparent.Root(),
			TxHash:      types.EmptyTxsHash,
			ReceiptHash: types.EmptyReceiptsHash,
			Number:      new(big.Int).Add(grandparent.Number(), common.Big1),
			Extra:       []byte("late"),
		}
		number := header.Number.Uint64()
		if number >= daoBlock && number < daoBlock+10 {
			header.Extra = params.DAOForkBlockExtra
		}
		binary.BigEndian.PutUint64(header.Nonce[:], uint64(b.random.Int63()))
		b.gen.AddUncle(header)
	}
}

func (b *block) addWithdrawal() {
	b.gen.AddWithdrawal(&types.Withdrawal{
		Validator: uint64(b.random.Intn(1000)),
		Address:   common.BigToAddress(big.NewInt(0xd00d00 + b.random.Int63n(16))),
		Amount:    uint64(b.random.Intn(3)),
	})
}
