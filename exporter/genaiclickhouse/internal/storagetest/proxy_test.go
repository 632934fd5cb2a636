package storagetest

import (
	"bytes"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// moment is where in an INSERT the proxy interferes.
type moment int

const (
	// afterStored: the engine has answered, and the answer goes no further.
	afterStored moment = iota
	// beforeSent: not a byte of the INSERT reaches the engine.
	beforeSent
	// halfSent: all of the INSERT's first packet but its end reaches the engine.
	halfSent
)

// proxy stands between exporter and engine. When countdown comes to zero, it interferes
// with that INSERT at its moment: it closes the connection, or, if held is set, tells held
// and leaves the connection as it is.
type proxy struct {
	countdown atomic.Int64
	at        atomic.Int64
	held      chan struct{}
	target    string
	l         net.Listener
	wg        sync.WaitGroup

	mu       sync.Mutex
	conns    []net.Conn
	accepted int
}

// newProxy returns a proxy before the engine at base and its URL.
func newProxy(t *testing.T, base string) (*proxy, string) {
	u, err := url.Parse(base)
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{target: u.Host, l: l}
	p.wg.Go(p.accept)
	t.Cleanup(p.close)
	return p, "http://" + l.Addr().String()
}

func (p *proxy) close() {
	_ = p.l.Close()
	p.cut()
	p.wg.Wait()
}

// cut closes all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		_ = c.Close()
	}
	p.conns = nil
}

func (p *proxy) accept() {
	for {
		client, err := p.l.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.where())
		if err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		p.conns = append(p.conns, client, server)
		p.accepted++
		p.mu.Unlock()
		var inserting atomic.Bool
		for _, way := range []func(net.Conn, net.Conn, *atomic.Bool) bool{p.requests, p.answers} {
			p.wg.Go(func() {
				if held := way(client, server, &inserting); !held {
					_ = client.Close()
					_ = server.Close()
				}
			})
		}
	}
}

// requests passes on what the client says. Requests of the HTTP client begin a packet.
func (p *proxy) requests(client, server net.Conn, inserting *atomic.Bool) (held bool) {
	buf := make([]byte, 32<<10)
	for {
		n, err := client.Read(buf)
		if n > 0 && bytes.Contains(buf[:n], []byte("query=INSERT")) {
			switch moment(p.at.Load()) {
			case afterStored:
				inserting.Store(true)
			case beforeSent:
				if p.countdown.Add(-1) == 0 {
					return p.interfere()
				}
			case halfSent:
				if p.countdown.Add(-1) == 0 {
					_, _ = server.Write(buf[:n-20])
					return p.interfere()
				}
			}
		}
		if n > 0 {
			if _, err := server.Write(buf[:n]); err != nil {
				return false
			}
		}
		if err != nil {
			return false
		}
	}
}

func (p *proxy) answers(client, server net.Conn, inserting *atomic.Bool) (held bool) {
	buf := make([]byte, 32<<10)
	for {
		n, err := server.Read(buf)
		if n > 0 && inserting.Swap(false) && p.countdown.Add(-1) == 0 {
			return p.interfere()
		}
		if n > 0 {
			if _, err := client.Write(buf[:n]); err != nil {
				return false
			}
		}
		if err != nil {
			return false
		}
	}
}

func (p *proxy) interfere() (held bool) {
	if p.held == nil {
		return false
	}
	p.held <- struct{}{}
	return true
}
