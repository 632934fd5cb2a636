package block

import (
	"fmt"

	"github.com/ClickHouse/ch-go/proto"
	"github.com/cespare/xxhash/v2"
)

// Block is rows in columns. A row is written by setting some of its columns and then
// calling Commit; columns that were not set have their type's default: empty, zero, false
// or NULL. Rollback takes back what was set since the last Commit.
type Block struct {
	columns []Column
	rows    int
}

// Column is one column of a block. A value set for the current row replaces an earlier one.
type Column interface {
	// Name is the column's name, and Type its ClickHouse type as it is sent.
	Name() string
	Type() string
	// Values returns the rows as the slice that clickhouse-go's Append takes.
	Values() any

	// pad fills with the default up to n rows, cut takes back what lies beyond n rows, and
	// reset empties the column and keeps its memory.
	pad(n int)
	cut(n int)
	reset()
	// state writes what comes before the data of the column, and data the rows themselves.
	state(b *proto.Buffer)
	data(b *proto.Buffer)
	// size is about how many bytes they will write.
	size() int
}

// New returns an empty block of these columns.
func New(columns ...Column) *Block { return &Block{columns: columns} }

// Rows is the number of committed rows.
func (b *Block) Rows() int { return b.rows }

// Columns lists the block's columns in the order they are sent.
func (b *Block) Columns() []Column { return b.columns }

// Commit ends the current row.
func (b *Block) Commit() { b.rows++ }

// Rollback takes back what was set in the current row.
func (b *Block) Rollback() {
	for _, c := range b.columns {
		c.cut(b.rows)
	}
}

// Finish fills every column up to the number of rows. It must come before the block is read.
func (b *Block) Finish() {
	for _, c := range b.columns {
		c.pad(b.rows)
	}
}

// Reset empties the block for the next rows and keeps its memory, but not the strings that
// were set.
func (b *Block) Reset() {
	for _, c := range b.columns {
		c.reset()
	}
	b.rows = 0
}

// Digest names the content of a block: equal blocks have equal digests, and others differ
// but for one chance in 2^128.
type Digest [2]uint64

// Second seed of the digest: the golden ratio's bits.
const secondSeed = 0x9E3779B97F4A7C15

// Size is about how many bytes Encode will append.
func (b *Block) Size() int {
	n := 64
	for _, c := range b.columns {
		n += len(c.Name()) + len(c.Type()) + 16 + c.size()
	}
	return n
}

// Encode appends the block in the Native format as a client of revision 0 sends it, and
// returns the digest of its columns' content. Columns named in without are sent but are no
// part of the digest.
func (b *Block) Encode(buf *proto.Buffer, without ...string) Digest {
	first, second := xxhash.New(), xxhash.NewWithSeed(secondSeed)
	buf.PutUVarInt(uint64(len(b.columns)))
	buf.PutUVarInt(uint64(b.rows))
	for _, c := range b.columns {
		begin := len(buf.Buf)
		buf.PutString(c.Name())
		buf.PutString(c.Type())
		if b.rows > 0 {
			c.state(buf)
			c.data(buf)
		}
		if !contains(without, c.Name()) {
			_, _ = first.Write(buf.Buf[begin:]) // a hash never fails
			_, _ = second.Write(buf.Buf[begin:])
		}
	}
	return Digest{first.Sum64(), second.Sum64()}
}

func contains(names []string, name string) bool {
	for _, n := range names {
		if n == name {
			return true
		}
	}
	return false
}

// String is the digest in hex.
func (d Digest) String() string { return fmt.Sprintf("%016x%016x", d[0], d[1]) }
