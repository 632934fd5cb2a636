//go:build linux || darwin

package chdb

import (
	"errors"
	"runtime"
	"unsafe"
)

// Param is one value for a {name:Type} placeholder, in the engine's text form.
type Param struct{ Name, Value string }

// Conn is one connection to the engine: one statement at a time. Its methods are not safe for concurrent use.
type Conn struct {
	lib    *Library
	handle *uintptr
}

// Class says what a statement does to state that outlives it.
type Class uint32

// The classes, in the engine's order: a batch has the highest class of its members.
const (
	ReadOnly       Class = iota // SELECT, SHOW, DESCRIBE, EXPLAIN, EXISTS, CHECK
	Mutating                    // INSERT, CREATE, ALTER, DROP and the like
	MutatingGlobal              // functions, users, named collections
	Control                     // USE, SET, SYSTEM, KILL, BACKUP and the like
	Unknown                     // did not parse
)

// Analysis is what the engine's parser says of a text before it runs.
type Analysis struct {
	Class      Class
	Statements int
}

type analysis struct{ structSize, statementCount, flags, queryClass uint32 }

// Connect opens a connection. The first one boots the engine with args such as "--path=folder"; query-level settings
// among args apply to this connection alone.
func (l *Library) Connect(args ...string) (*Conn, error) {
	argv := append([]string{"clickhouse"}, args...)
	var pin runtime.Pinner
	defer pin.Unpin()
	pointers := make([]*byte, len(argv)+1)
	for i, arg := range argv {
		text := append([]byte(arg), 0)
		pin.Pin(&text[0])
		pointers[i] = &text[0]
	}
	handle := l.fn.connect(int32(len(argv)), &pointers[0])
	runtime.KeepAlive(pointers)
	if handle == nil || *handle == 0 {
		return nil, errors.New("libchdb: the engine did not start; its own message is on standard error")
	}
	return &Conn{lib: l, handle: handle}, nil
}

// Close ends the connection; closing the last one shuts the engine down, flushing what it holds.
func (c *Conn) Close() {
	if c.handle != nil {
		c.lib.fn.closeConn(c.handle)
		c.handle = nil
	}
}

// Query runs a statement to its end and returns its whole result, which the caller must Destroy. An error is an [*Error].
func (c *Conn) Query(sql, format string, params []Param) (*Result, error) {
	var r uintptr
	if len(params) == 0 {
		r = c.lib.fn.query(*c.handle, bytePtr(sql), uintptr(len(sql)), bytePtr(format), uintptr(len(format)))
	} else {
		p := packParams(params)
		defer p.pin.Unpin()
		r = c.lib.fn.queryParams(*c.handle, bytePtr(sql), uintptr(len(sql)), bytePtr(format), uintptr(len(format)),
			&p.names[0], &p.nameLens[0], &p.values[0], &p.valueLens[0], uintptr(len(params)))
	}
	return c.wrap(r)
}

// Stream starts a statement whose result is fetched in pieces. The caller must Close the stream before the connection
// is used again.
func (c *Conn) Stream(sql, format string, params []Param) (*Stream, error) {
	var r uintptr
	if len(params) == 0 {
		r = c.lib.fn.streamQuery(*c.handle, bytePtr(sql), uintptr(len(sql)), bytePtr(format), uintptr(len(format)))
	} else {
		p := packParams(params)
		defer p.pin.Unpin()
		r = c.lib.fn.streamQueryParams(*c.handle, bytePtr(sql), uintptr(len(sql)), bytePtr(format), uintptr(len(format)),
			&p.names[0], &p.nameLens[0], &p.values[0], &p.valueLens[0], uintptr(len(params)))
	}
	if r == 0 {
		return nil, ParseError("the engine returned no stream")
	}
	if text := c.lib.fn.resultError(r); text != "" {
		c.lib.fn.destroyResult(r)
		return nil, ParseError(text)
	}
	return &Stream{conn: c, handle: r}, nil
}

// Insert starts an INSERT whose data follows in pieces. The statement has neither FORMAT clause nor data. The caller
// must Close the insert before the connection is used again.
func (c *Conn) Insert(sql, format string, params []Param) (*Insert, error) {
	var h uintptr
	if len(params) == 0 {
		h = c.lib.fn.streamInsert(*c.handle, bytePtr(sql), uintptr(len(sql)), bytePtr(format), uintptr(len(format)))
	} else {
		p := packParams(params)
		defer p.pin.Unpin()
		h = c.lib.fn.streamInsertParams(*c.handle, bytePtr(sql), uintptr(len(sql)), bytePtr(format), uintptr(len(format)),
			&p.names[0], &p.nameLens[0], &p.values[0], &p.valueLens[0], uintptr(len(params)))
	}
	if h == 0 {
		return nil, ParseError("the engine returned no insert stream")
	}
	if text := c.lib.fn.insertError(h); text != "" {
		c.lib.fn.destroyInsert(h)
		return nil, ParseError(text)
	}
	return &Insert{conn: c, handle: h}, nil
}

// Classify parses sql with the engine's parser and says what it would do, without running it.
func (c *Conn) Classify(sql string) (Analysis, error) {
	out := analysis{structSize: uint32(unsafe.Sizeof(analysis{}))}
	if c.lib.fn.classify(*c.handle, bytePtr(sql), uintptr(len(sql)), nil, 0, &out) != 0 {
		return Analysis{}, errors.New("libchdb: the engine cannot classify statements on this connection")
	}
	return Analysis{Class: Class(out.queryClass), Statements: int(out.statementCount)}, nil
}

func (c *Conn) wrap(r uintptr) (*Result, error) {
	if r == 0 {
		return nil, ParseError("the engine returned no result")
	}
	if text := c.lib.fn.resultError(r); text != "" {
		c.lib.fn.destroyResult(r)
		return nil, ParseError(text)
	}
	return &Result{lib: c.lib, handle: r}, nil
}

// bytePtr returns the address of the text, which purego keeps alive during the call; the engine never writes to it and
// takes its length apart, so no terminator is needed.
func bytePtr(s string) *byte {
	if s == "" {
		return &emptyText
	}
	return unsafe.StringData(s)
}

var emptyText byte

type packed struct {
	names, values       []*byte
	nameLens, valueLens []uintptr
	pin                 runtime.Pinner
}

func packParams(params []Param) *packed {
	p := &packed{}
	for _, param := range params {
		name, value := append([]byte(param.Name), 0), append([]byte(param.Value), 0)
		p.pin.Pin(&name[0])
		p.pin.Pin(&value[0])
		p.names, p.nameLens = append(p.names, &name[0]), append(p.nameLens, uintptr(len(param.Name)))
		p.values, p.valueLens = append(p.values, &value[0]), append(p.valueLens, uintptr(len(param.Value)))
	}
	return p
}
