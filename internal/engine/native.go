package engine

import (
	"bytes"
	"encoding/binary"
	"net"
	"time"
)

// nativeHint answers a client of the native protocol, whose own errors about an HTTP reply say nothing useful.
const nativeHint = "driftline's embedded engine speaks HTTP only, not the native protocol: give the address as http://host:port"

// nativeListener tells clients of ClickHouse's native TCP protocol, in that protocol, to use HTTP.
type nativeListener struct{ net.Listener }

func (l nativeListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &nativeConn{Conn: c}, nil
}

// nativeConn looks at the first byte that comes: a native client's greeting is packet 0, which begins no HTTP request.
type nativeConn struct {
	net.Conn
	seen bool
}

func (c *nativeConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if !c.seen && n > 0 {
		c.seen = true
		if p[0] == 0 {
			_ = c.SetWriteDeadline(time.Now().Add(time.Second))
			_, _ = c.Conn.Write(nativeException(48, "DB::Exception", "DB::Exception: "+nativeHint))
			_ = c.Close()
			return 0, net.ErrClosed
		}
	}
	return n, err
}

// nativeException is the packet in which a server of the native protocol tells of an exception.
func nativeException(code int32, name, message string) []byte {
	var b bytes.Buffer
	text := func(s string) {
		b.Write(binary.AppendUvarint(nil, uint64(len(s))))
		b.WriteString(s)
	}
	b.WriteByte(2)
	_ = binary.Write(&b, binary.LittleEndian, code)
	text(name)
	text(message)
	text("")
	b.WriteByte(0)
	return b.Bytes()
}
