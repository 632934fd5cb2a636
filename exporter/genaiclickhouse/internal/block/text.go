package block

import (
	"encoding/binary"
	"encoding/hex"
	"math"

	"github.com/ClickHouse/ch-go/proto"
)

// texts is strings one after the other, as the Native format has them: each led by its
// length as a varint.
type texts struct {
	buf []byte
	// ends are the positions in buf after each string.
	ends []int
}

func (t *texts) add(v string) {
	t.buf = binary.AppendUvarint(t.buf, uint64(len(v)))
	t.buf = append(t.buf, v...)
	t.ends = append(t.ends, len(t.buf))
}

func (t *texts) cut(n int) {
	if len(t.ends) > n {
		t.ends = t.ends[:n]
		end := 0
		if n > 0 {
			end = t.ends[n-1]
		}
		t.buf = t.buf[:end]
	}
}

func (t *texts) reset() { t.buf, t.ends = t.buf[:0], t.ends[:0] }

func (t *texts) at(i int) string {
	begin := 0
	if i > 0 {
		begin = t.ends[i-1]
	}
	_, lead := binary.Uvarint(t.buf[begin:t.ends[i]])
	return string(t.buf[begin+lead : t.ends[i]])
}

// Text is a column of type String.
type Text struct {
	name string
	texts
}

// NewText returns an empty column of type String.
func NewText(name string) *Text { return &Text{name: name} }

// Set sets the value of the given row, which is the block's current one.
func (c *Text) Set(row int, v string) {
	c.cut(row)
	c.pad(row)
	c.add(v)
}

// SetHex sets the value of the given row to lower-case hex digits of id.
func (c *Text) SetHex(row int, id []byte) {
	c.cut(row)
	c.pad(row)
	c.buf = binary.AppendUvarint(c.buf, uint64(hex.EncodedLen(len(id))))
	c.buf = hex.AppendEncode(c.buf, id)
	c.ends = append(c.ends, len(c.buf))
}

// IsSet says whether the given row, the block's current one, has been set.
func (c *Text) IsSet(row int) bool { return len(c.ends) > row }

// At returns the value of a row that was set or padded.
func (c *Text) At(row int) string { return c.at(row) }

func (c *Text) Name() string { return c.name }
func (c *Text) Type() string { return "String" }

func (c *Text) pad(n int) {
	for len(c.ends) < n {
		c.add("")
	}
}

func (c *Text) state(*proto.Buffer)  {}
func (c *Text) data(b *proto.Buffer) { b.Buf = append(b.Buf, c.buf...) }

// Values is []string.
func (c *Text) Values() any {
	out := make([]string, len(c.ends))
	for i := range out {
		out[i] = c.at(i)
	}
	return out
}

// words numbers distinct strings from 0 on, in the order they come; 0 is the empty one.
type words struct {
	texts
	index map[string]uint32
	// last and lastIndex save the look-up of a string that comes twice in a row.
	last      string
	lastIndex uint32
}

func newWords() words {
	w := words{index: map[string]uint32{}}
	w.reset()
	return w
}

func (w *words) reset() {
	w.texts.reset()
	clear(w.index)
	w.index[""] = 0
	w.add("")
	w.last, w.lastIndex = "", 0
}

func (w *words) number(v string) uint32 {
	if v == w.last {
		return w.lastIndex
	}
	i, known := w.index[v]
	if !known {
		i = uint32(len(w.ends))
		w.index[v] = i
		w.add(v)
	}
	w.last, w.lastIndex = v, i
	return i
}

// Word is a column of type LowCardinality(String): the distinct strings are sent once.
type Word struct {
	name  string
	words words
	keys  []uint32
}

// NewWord returns an empty column of type LowCardinality(String).
func NewWord(name string) *Word { return &Word{name: name, words: newWords()} }

// Set sets the value of the given row, which is the block's current one. The column keeps
// v itself until the block is dropped.
func (c *Word) Set(row int, v string) {
	c.cut(row)
	c.pad(row)
	c.keys = append(c.keys, c.words.number(v))
}

// IsSet says whether the given row, the block's current one, has been set.
func (c *Word) IsSet(row int) bool { return len(c.keys) > row }

// At returns the value of a row that was set or padded.
func (c *Word) At(row int) string { return c.words.at(int(c.keys[row])) }

func (c *Word) Name() string { return c.name }
func (c *Word) Type() string { return "LowCardinality(String)" }

func (c *Word) pad(n int) {
	for len(c.keys) < n {
		c.keys = append(c.keys, 0)
	}
}

func (c *Word) cut(n int) {
	if len(c.keys) > n {
		c.keys = c.keys[:n]
	}
}

func (c *Word) reset() {
	c.words.reset()
	c.keys = c.keys[:0]
}

func (c *Word) state(b *proto.Buffer) { wordState(b) }
func (c *Word) data(b *proto.Buffer)  { wordData(b, &c.words, c.keys) }

// Values is []string.
func (c *Word) Values() any {
	out := make([]string, len(c.keys))
	for i := range out {
		out[i] = c.At(i)
	}
	return out
}

// wordState is the version of the form that dictionaries are sent in.
func wordState(b *proto.Buffer) { proto.ColLowCardinalityRaw{Index: &proto.ColStr{}}.EncodeState(b) }

// wordData writes the dictionary and the keys with as few bytes each as will do.
func wordData(b *proto.Buffer, w *words, keys []uint32) {
	raw := proto.ColLowCardinalityRaw{Index: dictionary{&w.texts}}
	switch keyBytes(len(w.ends)) {
	case 1:
		raw.Key, raw.Keys8 = proto.KeyUInt8, narrow[uint8](keys)
	case 2:
		raw.Key, raw.Keys16 = proto.KeyUInt16, narrow[uint16](keys)
	default:
		raw.Key, raw.Keys32 = proto.KeyUInt32, keys
	}
	raw.EncodeColumn(b)
}

// keyBytes is how many bytes number one of n words.
func keyBytes(n int) int {
	switch {
	case n <= math.MaxUint8+1:
		return 1
	case n <= math.MaxUint16+1:
		return 2
	}
	return 4
}

func narrow[T uint8 | uint16](keys []uint32) []T {
	out := make([]T, len(keys))
	for i, k := range keys {
		out[i] = T(k)
	}
	return out
}

// dictionary lets ch-go write texts as the dictionary of a column.
type dictionary struct{ *texts }

func (d dictionary) Type() proto.ColumnType       { return proto.ColumnTypeString }
func (d dictionary) Rows() int                    { return len(d.ends) }
func (d dictionary) EncodeColumn(b *proto.Buffer) { b.Buf = append(b.Buf, d.buf...) }
func (d dictionary) WriteColumn(w *proto.Writer)  { w.ChainWrite(d.buf) }
func (dictionary) Reset()                         { panic("block: a dictionary is only written") }
func (dictionary) DecodeColumn(*proto.Reader, int) error {
	panic("block: a dictionary is only written")
}

func (c *Text) size() int { return len(c.buf) }

func (c *Word) size() int { return c.words.size(c.keys) }

func (w *words) size(keys []uint32) int { return 32 + len(w.buf) + len(keys)*keyBytes(len(w.ends)) }
