package assemble

import (
	"encoding/binary"
	"math"
	"reflect"
	"slices"

	"github.com/cespare/xxhash/v2"

	"driftline/internal/genai"
	"driftline/internal/rows"
)

// hashed lists the fields that make a row's content: all but what a release itself
// writes. release_reason is left out so that a late span does not send a request
// again in which nothing else changed.
var hashed = func() map[rows.Table][][]int {
	out := map[rows.Table][][]int{}
	for _, table := range rows.Tables {
		for _, f := range rows.Fields(table) {
			switch f.Column {
			case "revision", "deleted", "release_reason":
				continue
			}
			out[table] = append(out[table], f.Index)
		}
	}
	return out
}()

// rowHash is equal for rows of equal content.
func (d *digest) rowHash(row rows.Row) uint64 {
	d.buf = d.buf[:0]
	value := reflect.ValueOf(row).Elem()
	for _, index := range hashed[row.Table()] {
		d.value(value.FieldByIndex(index))
	}
	return xxhash.Sum64(d.buf)
}

// spanHash is equal for copies of one span.
func (d *digest) spanHash(s *genai.Span) uint64 {
	d.buf = d.buf[:0]
	d.text(s.SpanID)
	d.text(s.ParentID)
	d.text(s.TraceState)
	d.text(s.Name)
	d.text(s.Scope)
	d.number(uint64(s.Kind))
	d.number(uint64(s.Status))
	d.number(uint64(s.Start))
	d.number(uint64(s.End))
	if s.Resource != nil {
		d.text(s.Resource.ServiceName)
		d.text(s.Resource.ServiceVersion)
		d.text(s.Resource.Environment)
		d.text(s.Resource.HostID)
	}
	for _, t := range s.LinkedTraces {
		d.text(t)
	}
	d.attrs(s.Attrs)
	d.number(uint64(len(s.Events)))
	for i := range s.Events {
		d.text(s.Events[i].Name)
		d.number(uint64(s.Events[i].Time))
		d.attrs(s.Events[i].Attrs)
	}
	return xxhash.Sum64(d.buf)
}

// digest collects bytes such that different contents are different bytes. Its buffer
// is used again and again.
type digest struct{ buf []byte }

func (d *digest) number(n uint64) { d.buf = binary.LittleEndian.AppendUint64(d.buf, n) }

func (d *digest) text(s string) {
	d.number(uint64(len(s)))
	d.buf = append(d.buf, s...)
}

func (d *digest) attrs(attrs []genai.Attr) {
	d.number(uint64(len(attrs)))
	for i := range attrs {
		v := &attrs[i].Value
		d.text(attrs[i].Key)
		d.number(uint64(v.Type))
		switch v.Type {
		case genai.ValueString:
			d.text(v.Str)
		case genai.ValueInt:
			d.number(uint64(v.Int))
		case genai.ValueDouble:
			d.number(math.Float64bits(v.Double))
		case genai.ValueBool:
			d.bool(v.Bool)
		case genai.ValueStrings:
			d.number(uint64(len(v.List)))
			for _, s := range v.List {
				d.text(s)
			}
		}
	}
}

func (d *digest) bool(b bool) {
	if b {
		d.buf = append(d.buf, 1)
	} else {
		d.buf = append(d.buf, 0)
	}
}

func (d *digest) value(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		d.bool(!v.IsNil())
		if !v.IsNil() {
			d.value(v.Elem())
		}
	case reflect.String:
		d.text(v.String())
	case reflect.Bool:
		d.bool(v.Bool())
	case reflect.Float64:
		d.number(math.Float64bits(v.Float()))
	case reflect.Map:
		m := v.Interface().(map[string]string)
		keys := make([]string, 0, len(m))
		for k := range m {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		d.number(uint64(len(keys)))
		for _, k := range keys {
			d.text(k)
			d.text(m[k])
		}
	default:
		if v.CanInt() {
			d.number(uint64(v.Int()))
		} else {
			d.number(v.Uint())
		}
	}
}
