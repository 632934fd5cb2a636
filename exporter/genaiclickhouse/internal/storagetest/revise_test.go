package storagetest

import (
	"math/rand/v2"
	"reflect"

	"driftline/internal/rows"
)

// keyColumns hold a row's identity.
var keyColumns = map[string]bool{
	"service_name": true, "trace_id": true, "request_id": true, "operation_id": true, "attempt_id": true,
	"segment_index": true, "ended_at": true, "request_ended_at": true, "observed_at": true,
}

// revise returns other content under the key of row.
func revise(rng *rand.Rand, row rows.Row) rows.Row {
	next := randomRow(rng, row.Table())
	copyKey(row, next)
	return next
}

// tombstone returns a row with the key of row and nothing else, marked as deleted.
func tombstone(row rows.Row) rows.Row {
	gone, err := rows.New(row.Table())
	if err != nil {
		panic(err)
	}
	copyKey(row, gone)
	gone.Head().Deleted = true
	return gone
}

func copyKey(from, to rows.Row) {
	for _, f := range rows.Fields(from.Table()) {
		if keyColumns[f.Column] {
			reflect.ValueOf(to).Elem().FieldByIndex(f.Index).Set(reflect.ValueOf(from).Elem().FieldByIndex(f.Index))
		}
	}
}
