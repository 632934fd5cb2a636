package block

import (
	"testing"

	"github.com/ClickHouse/ch-go/proto"
	"github.com/stretchr/testify/require"
)

func sample() (*Block, *Text, *Word, *Number[int64], *Pairs) {
	text, word, n, pairs := NewText("text"), NewWord("word"), NewNumber[int64]("n", true), NewPairs("pairs")
	return New(text, word, n, pairs), text, word, n, pairs
}

func TestRollbackTakesBackTheCurrentRowOnly(t *testing.T) {
	b, text, word, n, pairs := sample()
	text.Set(0, "a")
	pairs.Add(0, "k", "v")
	b.Commit()
	text.Set(1, "wrong")
	word.Set(1, "wrong")
	n.Set(1, 9)
	pairs.Add(1, "wrong", "x")
	pairs.Add(1, "k", "y")
	b.Rollback()
	b.Commit() // a row of defaults
	text.Set(2, "first")
	text.Set(2, "c") // a value that comes twice replaces
	n.Set(2, 7)
	b.Commit()
	b.Finish()
	seven := int64(7)
	require.Equal(t, 3, b.Rows())
	require.Equal(t, []string{"a", "", "c"}, text.Values())
	require.Equal(t, []string{"", "", ""}, word.Values())
	require.Equal(t, []*int64{nil, nil, &seven}, n.Values())
	require.Equal(t, []map[string]string{{"k": "v"}, {}, {}}, pairs.Values())
}

func TestResetForgetsEverything(t *testing.T) {
	write := func(b *Block, text *Text, word *Word, n *Number[int64], pairs *Pairs) (proto.Buffer, Digest) {
		for row := range 300 { // more words than one byte can number
			text.Set(row, "t")
			word.Set(row, string(rune('a'+row)))
			if row%2 == 0 {
				n.Set(row, int64(row))
			}
			pairs.Add(row, "key", "v")
			b.Commit()
		}
		b.Finish()
		var buf proto.Buffer
		return buf, b.Encode(&buf)
	}
	fresh, text, word, n, pairs := sample()
	_, want := write(fresh, text, word, n, pairs)
	used, text, word, n, pairs := sample()
	text.Set(0, "other")
	word.Set(0, "other")
	n.Set(0, 1)
	pairs.Add(0, "other", "other")
	used.Commit()
	used.Finish()
	used.Reset()
	_, got := write(used, text, word, n, pairs)
	require.Equal(t, want, got)
}

func TestSizeIsAboutWhatIsWritten(t *testing.T) {
	b, text, word, n, pairs := sample()
	for row := range 1000 {
		text.Set(row, "some text")
		word.Set(row, string(rune('a'+row%500)))
		n.Set(row, 1)
		pairs.Add(row, "key", "value")
		b.Commit()
	}
	b.Finish()
	var buf proto.Buffer
	b.Encode(&buf)
	require.InEpsilon(t, len(buf.Buf), b.Size(), 0.02)
	require.GreaterOrEqual(t, b.Size(), len(buf.Buf), "the buffer need not grow")
}

func TestTheDigestLeavesColumnsOut(t *testing.T) {
	digest := func(a, b string) Digest {
		first, second := NewText("a"), NewText("b")
		block := New(first, second)
		first.Set(0, a)
		second.Set(0, b)
		block.Commit()
		block.Finish()
		var buf proto.Buffer
		return block.Encode(&buf, "b")
	}
	require.Equal(t, digest("x", "y"), digest("x", "z"))
	require.NotEqual(t, digest("x", "y"), digest("z", "y"))
}
