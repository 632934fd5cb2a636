package genaiclickhouse

import (
	"fmt"
	"reflect"
	"strings"
	"time"
	"unsafe"

	"github.com/ClickHouse/clickhouse-go/v2"

	"driftline/internal/rows"
	"driftline/schema"
)

// field is one column of a carried table, ready to be read from many rows at once.
type field struct {
	name     string
	offset   uintptr
	time     bool
	optional bool
	// gather collects the column's values of all rows and mixes them into the digest.
	gather func(bases []unsafe.Pointer, offset uintptr, d *digest) any
}

// plan is how the rows of one table become columns.
type plan struct {
	fields []field
	// key is the index of the row's key time.
	key int
	// columns are the INSERT's columns, ingested_at last.
	columns []clickhouse.ColumnNameAndType
}

// keyTimes names each table's key time, which places a row in its partition.
var keyTimes = map[rows.Table]string{
	rows.TableRequests:     "ended_at",
	rows.TableOperations:   "ended_at",
	rows.TableAttempts:     "ended_at",
	rows.TableSegments:     "request_ended_at",
	rows.TableOpenRequests: "observed_at",
}

var plans = buildPlans()

func buildPlans() map[rows.Table]*plan {
	out := map[rows.Table]*plan{}
	for _, table := range rows.Tables {
		row, err := rows.New(table)
		if err != nil {
			panic(err)
		}
		p := &plan{key: -1}
		for i, f := range rows.Fields(table) {
			gather := gatherOf(f)
			if gather == nil {
				panic(fmt.Sprintf("genaiclickhouse: column %s of %s has type %s, which has no form here", f.Column, table, f.Type))
			}
			if f.Column == keyTimes[table] {
				p.key = i
			}
			p.fields = append(p.fields, field{
				name: f.Column, offset: offsetOf(reflect.TypeOf(row).Elem(), f.Index),
				time: f.Time, optional: f.Type.Kind() == reflect.Pointer, gather: gather,
			})
		}
		if p.key < 0 {
			panic("genaiclickhouse: no key time in " + string(table))
		}
		p.columns = insertColumns(string(table))
		out[table] = p
	}
	return out
}

// insertColumns lists the columns that the exporter fills, in the DDL's order: all but
// those with a default. Over HTTP the types are stated, so that no DESCRIBE is needed before
// an insert, and dictionaries are left to the server, which builds them at less cost.
func insertColumns(table string) []clickhouse.ColumnNameAndType {
	var out []clickhouse.ColumnNameAndType
	for _, c := range schema.Columns(table) {
		if c.Default == "" {
			out = append(out, clickhouse.ColumnNameAndType{Name: c.Name, Type: strings.ReplaceAll(c.Type, "LowCardinality(String)", "String")})
		}
	}
	return out
}

// offsetOf is the place of a field within its row; embedded structs are held by value.
func offsetOf(typ reflect.Type, index []int) uintptr {
	var offset uintptr
	for _, i := range index {
		f := typ.Field(i)
		offset += f.Offset
		typ = f.Type
	}
	return offset
}

func pointer(row rows.Row) unsafe.Pointer { return reflect.ValueOf(row).UnsafePointer() }

// keyTime is the row's key time in Unix nanoseconds.
func (p *plan) keyTime(row rows.Row) int64 {
	return *(*int64)(unsafe.Add(pointer(row), p.fields[p.key].offset))
}

func gatherOf(f rows.Field) func([]unsafe.Pointer, uintptr, *digest) any {
	switch reflect.New(f.Type).Interface().(type) {
	case *string:
		return values((*digest).text)
	case *bool:
		return values((*digest).flag)
	case *int64:
		if f.Time {
			return instants
		}
		return values((*digest).int64)
	case *uint64:
		return values((*digest).word)
	case *uint32:
		return values(func(d *digest, v uint32) { d.word(uint64(v)) })
	case *uint16:
		return values(func(d *digest, v uint16) { d.word(uint64(v)) })
	case *float64:
		return values((*digest).float)
	case *map[string]string:
		return values((*digest).pairs)
	case **bool:
		return values(optional((*digest).flag))
	case **int64:
		if f.Time {
			return optionalInstants
		}
		return values(optional((*digest).int64))
	case **uint32:
		return values(optional(func(d *digest, v uint32) { d.word(uint64(v)) }))
	}
	return nil
}

func values[T any](mix func(*digest, T)) func([]unsafe.Pointer, uintptr, *digest) any {
	return func(bases []unsafe.Pointer, offset uintptr, d *digest) any {
		out := make([]T, len(bases))
		for i, base := range bases {
			out[i] = *(*T)(unsafe.Add(base, offset))
			mix(d, out[i])
		}
		return out
	}
}

func optional[T any](mix func(*digest, T)) func(*digest, *T) {
	return func(d *digest, v *T) {
		d.flag(v != nil)
		if v != nil {
			mix(d, *v)
		}
	}
}

func instants(bases []unsafe.Pointer, offset uintptr, d *digest) any {
	out := make([]time.Time, len(bases))
	for i, base := range bases {
		ns := *(*int64)(unsafe.Add(base, offset))
		d.int64(ns)
		out[i] = time.Unix(0, ns).UTC()
	}
	return out
}

func optionalInstants(bases []unsafe.Pointer, offset uintptr, d *digest) any {
	out := make([]*time.Time, len(bases))
	for i, base := range bases {
		ns := *(**int64)(unsafe.Add(base, offset))
		d.flag(ns != nil)
		if ns != nil {
			d.int64(*ns)
			at := time.Unix(0, *ns).UTC()
			out[i] = &at
		}
	}
	return out
}
