package assemble

import (
	"encoding/binary"
	"reflect"
	"slices"
	"unsafe"

	"github.com/cespare/xxhash/v2"

	"driftline/internal/rows"
)

// hashed lists the fields that make a row's content: all but what a release itself
// writes. release_reason is left out so that a late span does not send a request
// again in which nothing else changed.
var hashed = func() map[rows.Table][]hashedField {
	out := map[rows.Table][]hashedField{}
	for _, table := range rows.Tables {
		for _, f := range rows.Fields(table) {
			switch f.Column {
			case "revision", "deleted", "release_reason":
				continue
			}
			kind := f.Type.Kind()
			h := hashedField{offset: f.Offset, kind: kind, size: f.Type.Size()}
			if kind == reflect.Pointer {
				h.size = f.Type.Elem().Size()
			}
			switch kind {
			case reflect.String, reflect.Map, reflect.Pointer:
			case reflect.Bool, reflect.Float64, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
				reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
			default:
				panic("assemble: no hash for column " + f.Column)
			}
			out[table] = append(out[table], h)
		}
	}
	return out
}()

// hashedField is a text, a map of text, a scalar of so many bytes or a pointer to one.
type hashedField struct {
	offset, size uintptr
	kind         reflect.Kind
}

// rowHash is equal for rows of equal content.
func (d *digest) rowHash(row rows.Row) uint64 {
	d.buf = d.buf[:0]
	base := reflect.ValueOf(row).UnsafePointer()
	for _, f := range hashed[row.Table()] {
		field := unsafe.Add(base, f.offset)
		switch f.kind {
		case reflect.String:
			d.text(*(*string)(field))
		case reflect.Map:
			d.pairs(*(*map[string]string)(field))
		case reflect.Pointer:
			to := *(*unsafe.Pointer)(field)
			if to == nil {
				d.buf = append(d.buf, 0)
				continue
			}
			d.buf = append(d.buf, 1)
			d.buf = append(d.buf, unsafe.Slice((*byte)(to), f.size)...)
		default:
			d.buf = append(d.buf, unsafe.Slice((*byte)(field), f.size)...)
		}
	}
	return xxhash.Sum64(d.buf)
}

// digest collects bytes such that different contents are different bytes. Its buffer
// is used again and again.
type digest struct{ buf []byte }

func (d *digest) number(n uint64) { d.buf = binary.AppendUvarint(d.buf, n) }

func (d *digest) text(s string) {
	d.number(uint64(len(s)))
	d.buf = append(d.buf, s...)
}

func (d *digest) pairs(m map[string]string) {
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
}
