package main

import (
	"crypto/ecdsa"
	"math/big"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/params"
	"github.com/ethereum/go-ethereum/rlp"
)

// Numbers of the first blocks of the forks that begin with a block. Ten blocks after the DAO fork
// carry its mark, so the next fork comes after them.
const (
	homesteadBlock      = 4
	daoBlock            = 7
	tangerineBlock      = 18
	spuriousBlock       = 22
	byzantiumBlock      = 27
	constantinopleBlock = 32
	petersburgBlock     = 37
	istanbulBlock       = 42
	muirGlacierBlock    = 46
	berlinBlock         = 50
	londonBlock         = 55
	arrowGlacierBlock   = 60
	grayGlacierBlock    = 64
	mergeBlock          = 68
	lastBlock           = 120
)

// The first block of proof of stake has this timestamp; every later one comes ten seconds after the
// one before it.
const (
	mergeTime    = 5000
	blockSeconds = 10
	shanghaiTime = mergeTime + 6*blockSeconds
	cancunTime   = mergeTime + 13*blockSeconds
	pragueTime   = mergeTime + 21*blockSeconds
	osakaTime    = mergeTime + 30*blockSeconds
	bpo1Time     = mergeTime + 37*blockSeconds
	bpo2Time     = mergeTime + 44*blockSeconds
)

const gasLimit = 20_000_000

// Contracts of the genesis state. What they do stands beside their code.
var (
	storeAddress     = common.HexToAddress("0x5704e00000000000000000000000000000000001")
	logAddress       = common.HexToAddress("0x5704e00000000000000000000000000000000002")
	environAddress   = common.HexToAddress("0x5704e00000000000000000000000000000000003")
	createAddress    = common.HexToAddress("0x5704e00000000000000000000000000000000004")
	create2Address   = common.HexToAddress("0x5704e00000000000000000000000000000000005")
	burnAddress      = common.HexToAddress("0x5704e00000000000000000000000000000000006")
	transientAddress = common.HexToAddress("0x5704e00000000000000000000000000000000007")
	blobFeeAddress   = common.HexToAddress("0x5704e00000000000000000000000000000000008")
	revertAddress    = common.HexToAddress("0x5704e00000000000000000000000000000000009")
	depositAddress   = common.HexToAddress("0x00000000219ab540356cbb839cbe05303d7705fa")
)

var contractCode = map[common.Address][]byte{
	// SSTORE(CALLDATALOAD(0), CALLDATALOAD(32))
	storeAddress: common.FromHex("6020356000355500"),
	// MSTORE(0, CALLDATALOAD(0)); LOG1(0, 32, CALLER)
	logAddress: common.FromHex("6000356000523360206000a100"),
	// Slots 0 to 5: NUMBER, TIMESTAMP, DIFFICULTY, GASLIMIT, COINBASE, BLOCKHASH(NUMBER - 1)
	environAddress: common.FromHex("4360005542600155446002554560035541600455600143034060055500"),
	// SSTORE(0, CREATE(0, calldata))
	createAddress: common.FromHex("3660006000373660006000f060005500"),
	// SSTORE(0, CREATE2(0, calldata, salt 0))
	create2Address: common.FromHex("36600060003760003660006000f560005500"),
	// INVALID: all gas is lost
	burnAddress: common.FromHex("fe"),
	// TSTORE(0, 1); SSTORE(0, TLOAD(0))
	transientAddress: common.FromHex("600160005d60005c60005500"),
	// SSTORE(1, BLOBBASEFEE)
	blobFeeAddress: common.FromHex("4a60015500"),
	// SSTORE(0, 1); REVERT
	revertAddress: common.FromHex("600160005560006000fd"),
	// LOG1(calldata, DepositEvent): the event of the deposit contract without its bookkeeping
	depositAddress: common.FromHex("3660006000377f" +
		"649bbc62d0e31342afea4e5cd82d4049e7e1ee912fc0889aa790803be39038c5" + "366000a100"),
}

// An account that signs.
type account struct {
	key     *ecdsa.PrivateKey
	address common.Address
}

func newAccounts(count int) ([]account, error) {
	accounts := make([]account, count)
	for index := range accounts {
		key, err := crypto.ToECDSA(crypto.Keccak256([]byte{byte(index)}))
		if err != nil {
			return nil, err
		}
		accounts[index] = account{key, crypto.PubkeyToAddress(key.PublicKey)}
	}
	return accounts, nil
}

func newGenesis(accounts []account) *core.Genesis {
	alloc := types.GenesisAlloc{
		params.BeaconRootsAddress:        {Nonce: 1, Code: params.BeaconRootsCode, Balance: new(big.Int)},
		params.HistoryStorageAddress:     {Nonce: 1, Code: params.HistoryStorageCode, Balance: new(big.Int)},
		params.WithdrawalQueueAddress:    {Nonce: 1, Code: params.WithdrawalQueueCode, Balance: new(big.Int)},
		params.ConsolidationQueueAddress: {Nonce: 1, Code: params.ConsolidationQueueCode, Balance: new(big.Int)},
	}
	for address, code := range contractCode {
		alloc[address] = types.Account{Code: code, Balance: big.NewInt(int64(address[19]))}
	}
	// A contract with nonce and storage from the start.
	stored := alloc[storeAddress]
	stored.Nonce = 3
	stored.Storage = map[common.Hash]common.Hash{{31: 1}: {31: 7}, {0: 1}: {0: 0xff}}
	alloc[storeAddress] = stored
	ether := new(big.Int).Exp(big.NewInt(10), big.NewInt(21), nil)
	for _, account := range accounts {
		alloc[account.address] = types.Account{Balance: ether}
	}
	// Some of the accounts that the DAO fork empties. The others do not exist before it.
	for index, address := range params.DAODrainList()[:5] {
		alloc[address] = types.Account{Balance: big.NewInt(int64(1_000_000 + index))}
	}
	return &core.Genesis{
		Config:     chainConfig(),
		Alloc:      alloc,
		GasLimit:   gasLimit,
		Difficulty: big.NewInt(131_072),
		ExtraData:  []byte("every fork"),
		Nonce:      66,
	}
}

func chainConfig() *params.ChainConfig {
	block := func(number int64) *big.Int { return big.NewInt(number) }
	time := func(at uint64) *uint64 { return &at }
	blobs := func(target, max int, fraction uint64) *params.BlobConfig {
		return &params.BlobConfig{Target: target, Max: max, UpdateFraction: fraction}
	}
	return &params.ChainConfig{
		ChainID:                big.NewInt(7357),
		HomesteadBlock:         block(homesteadBlock),
		DAOForkBlock:           block(daoBlock),
		DAOForkSupport:         true,
		EIP150Block:            block(tangerineBlock),
		EIP155Block:            block(spuriousBlock),
		EIP158Block:            block(spuriousBlock),
		ByzantiumBlock:         block(byzantiumBlock),
		ConstantinopleBlock:    block(constantinopleBlock),
		PetersburgBlock:        block(petersburgBlock),
		IstanbulBlock:          block(istanbulBlock),
		MuirGlacierBlock:       block(muirGlacierBlock),
		BerlinBlock:            block(berlinBlock),
		LondonBlock:            block(londonBlock),
		ArrowGlacierBlock:      block(arrowGlacierBlock),
		GrayGlacierBlock:       block(grayGlacierBlock),
		MergeNetsplitBlock:     block(mergeBlock),
		ShanghaiTime:           time(shanghaiTime),
		CancunTime:             time(cancunTime),
		PragueTime:             time(pragueTime),
		OsakaTime:              time(osakaTime),
		BPO1Time:               time(bpo1Time),
		BPO2Time:               time(bpo2Time),
		DepositContractAddress: depositAddress,
		Ethash:                 new(params.EthashConfig),
		BlobScheduleConfig: &params.BlobScheduleConfig{
			Cancun: blobs(3, 6, 3338477),
			Prague: blobs(6, 9, 5007716),
			BPO1:   blobs(10, 15, 8346193),
			BPO2:   blobs(14, 21, 11684671),
		},
	}
}

// The name of the fork whose rules hold for the block.
func forkAt(config *params.ChainConfig, block *types.Block) string {
	number, time := block.NumberU64(), block.Time()
	times := []struct {
		name  string
		begin uint64
	}{
		{"BPO2", bpo2Time}, {"BPO1", bpo1Time}, {"Osaka", osakaTime}, {"Prague", pragueTime},
		{"Cancun", cancunTime}, {"Shanghai", shanghaiTime},
	}
	for _, fork := range times {
		if number >= mergeBlock && time >= fork.begin {
			return fork.name
		}
	}
	blocks := []struct {
		name  string
		begin uint64
	}{
		{"Paris", mergeBlock}, {"GrayGlacier", grayGlacierBlock}, {"ArrowGlacier", arrowGlacierBlock},
		{"London", londonBlock}, {"Berlin", berlinBlock}, {"MuirGlacier", muirGlacierBlock},
		{"Istanbul", istanbulBlock}, {"Petersburg", petersburgBlock},
		{"Constantinople", constantinopleBlock}, {"Byzantium", byzantiumBlock},
		{"SpuriousDragon", spuriousBlock}, {"Tangerine", tangerineBlock}, {"Dao", daoBlock},
		{"Homestead", homesteadBlock},
	}
	for _, fork := range blocks {
		if number >= fork.begin {
			return fork.name
		}
	}
	return "Frontier"
}

func encode(block *types.Block) ([]byte, error) {
	return rlp.EncodeToBytes(block)
}
