package genaiclickhouse

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/cespare/xxhash/v2"
)

// digest names the content of an insert: a batch that is tried again has the same digest,
// so ClickHouse drops the second copy. `ingested_at` is no part of it.
type digest struct{ a, b uint64 }

// Odd constants with well-spread bits: those of xxHash64 and of the golden ratio.
const (
	primeA = 0x9E3779B185EBCA87
	primeB = 0xC2B2AE3D27D4EB4F
)

func (d *digest) word(v uint64) {
	d.a = bits.RotateLeft64(d.a^v*primeB, 31) * primeA
	d.b = (d.b + v ^ d.a>>29) * primeB
	d.b ^= d.b >> 32
}

func (d *digest) int64(v int64)   { d.word(uint64(v)) }
func (d *digest) float(v float64) { d.word(math.Float64bits(v)) }

func (d *digest) flag(v bool) {
	if v {
		d.word(1)
		return
	}
	d.word(2)
}

func (d *digest) text(s string) {
	if s == "" {
		d.word(3)
		return
	}
	d.word(xxhash.Sum64String(s))
}

// pairs does not depend on the order in which a map is walked.
func (d *digest) pairs(m map[string]string) {
	var sum uint64
	for k, v := range m {
		pair := digest{}
		pair.text(k)
		pair.text(v)
		sum += pair.a ^ pair.b
	}
	d.word(uint64(len(m)))
	d.word(sum)
}

// token is the digest as ClickHouse's insert_deduplication_token.
func (d *digest) token() string { return fmt.Sprintf("driftline-%016x%016x", d.a, d.b) }
