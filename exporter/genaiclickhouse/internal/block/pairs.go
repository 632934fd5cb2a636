package block

import (
	"iter"

	"github.com/ClickHouse/ch-go/proto"
)

// Pairs is a column of type Map(LowCardinality(String), String).
type Pairs struct {
	name string
	// offsets are the number of pairs up to the end of each row.
	offsets []uint64
	words   words
	keys    []uint32
	values  texts
}

// NewPairs returns an empty column of type Map(LowCardinality(String), String).
func NewPairs(name string) *Pairs { return &Pairs{name: name, words: newWords()} }

// Add adds a pair to the given row, which is the block's current one, in the order that
// readers will see. Rows that hold the same keys in the same order compress far better.
// The column keeps key itself until the block is dropped.
func (c *Pairs) Add(row int, key, value string) {
	c.pad(row)
	if len(c.offsets) == row {
		c.offsets = append(c.offsets, uint64(len(c.keys)))
	}
	c.keys = append(c.keys, c.words.number(key))
	c.values.add(value)
	c.offsets[row]++
}

// Row walks the pairs of a row that was written or padded.
func (c *Pairs) Row(row int) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		begin := uint64(0)
		if row > 0 {
			begin = c.offsets[row-1]
		}
		for i := begin; i < c.offsets[row]; i++ {
			if !yield(c.words.at(int(c.keys[i])), c.values.at(int(i))) {
				return
			}
		}
	}
}

func (c *Pairs) Name() string { return c.name }
func (c *Pairs) Type() string { return "Map(LowCardinality(String), String)" }

func (c *Pairs) pad(n int) {
	for len(c.offsets) < n {
		c.offsets = append(c.offsets, uint64(len(c.keys)))
	}
}

func (c *Pairs) cut(n int) {
	if len(c.offsets) <= n {
		return
	}
	c.offsets = c.offsets[:n]
	end := uint64(0)
	if n > 0 {
		end = c.offsets[n-1]
	}
	c.keys = c.keys[:end]
	c.values.cut(int(end))
}

func (c *Pairs) reset() {
	c.offsets, c.keys = c.offsets[:0], c.keys[:0]
	c.words.reset()
	c.values.reset()
}

func (c *Pairs) state(b *proto.Buffer) { wordState(b) }

func (c *Pairs) data(b *proto.Buffer) {
	proto.ColUInt64(c.offsets).EncodeColumn(b)
	if len(c.keys) == 0 {
		return
	}
	wordData(b, &c.words, c.keys)
	b.Buf = append(b.Buf, c.values.buf...)
}

// Values is []map[string]string.
func (c *Pairs) Values() any {
	out := make([]map[string]string, len(c.offsets))
	for i := range out {
		out[i] = map[string]string{}
		for k, v := range c.Row(i) {
			out[i][k] = v
		}
	}
	return out
}

func (c *Pairs) size() int { return 8*len(c.offsets) + c.words.size(c.keys) + len(c.values.buf) }
