package genaiclickhouse

import (
	"driftline/exporter/genaiclickhouse/internal/block"
	"driftline/internal/rows"
)

// What a column holds in storage when its value follows from other columns: eight random
// bytes less for each. No true value is like these: an instant of 1970 is set aside, and
// nothing lasts less than no time. The views of schema version 2 put the values back.
const (
	// sameInstant stands for the instant of the end minus the length.
	sameInstant = 0
	// sameLength stands for the other column's value.
	sameLength = -1
)

// sameAs says which columns of a table often follow from others.
type sameAs struct {
	// started follows from ended and length; the table has none if it is empty.
	started, ended, length string
	// lengths are pairs: a column, and the one it often equals.
	lengths [][2]string
}

var sames = map[rows.Table]sameAs{
	rows.TableOperations: {
		started: "started_at", ended: "ended_at", length: "user_time_ns",
		lengths: [][2]string{{"path_ns", "user_time_ns"}, {"agent_time_ns", "user_time_ns"}, {"tool_ns", "user_time_ns"}, {"inference_segment_ns", "inference_time_ns"}},
	},
	rows.TableAttempts: {started: "started_at", ended: "ended_at", length: "duration_ns"},
}

// follows is sameAs with the columns of one block.
type follows struct {
	started, ended, length *block.Number[int64]
	lengths                [][2]*block.Number[int64]
}

func (t *tableRows) newFollows() follows {
	column := func(name string) *block.Number[int64] {
		for i := range t.fields {
			if t.fields[i].Column == name {
				return t.columns[i].(*block.Number[int64])
			}
		}
		panic("genaiclickhouse: table " + string(t.table) + " has no column " + name)
	}
	s, ok := sames[t.table]
	if !ok {
		return follows{}
	}
	f := follows{started: column(s.started), ended: column(s.ended), length: column(s.length)}
	for _, pair := range s.lengths {
		f.lengths = append(f.lengths, [2]*block.Number[int64]{column(pair[0]), column(pair[1])})
	}
	return f
}

// stands says whether sameLength means something else than itself in a column.
func (f *follows) stands(c *block.Number[int64]) bool {
	for _, pair := range f.lengths {
		if pair[0] == c {
			return true
		}
	}
	return false
}

// shorten replaces what follows from other columns in the given row, which is the current one.
func (f *follows) shorten(row int) {
	if f.started == nil {
		return
	}
	length := int64(0)
	if f.length.IsSet(row) {
		length = f.length.At(row)
	}
	if f.started.IsSet(row) && f.started.At(row) == f.ended.At(row)-length {
		f.started.Set(row, sameInstant)
	}
	for _, pair := range f.lengths {
		if pair[0].IsSet(row) && pair[1].IsSet(row) && pair[0].At(row) == pair[1].At(row) {
			pair[0].Set(row, sameLength)
		}
	}
}
