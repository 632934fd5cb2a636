package storagetest

import (
	"bytes"
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// proxy stands between exporter and engine. When countdown comes to zero, it takes an
// INSERT whole, waits for the engine's answer, and closes the connection instead of
// passing it on.
type proxy struct {
	// countdown is the number of INSERTs until the one whose answer is lost.
	countdown atomic.Int64
	target    string
	l         net.Listener
	wg        sync.WaitGroup

	mu    sync.Mutex
	conns []net.Conn
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
	p.mu.Lock()
	for _, c := range p.conns {
		_ = c.Close()
	}
	p.mu.Unlock()
	p.wg.Wait()
}

func (p *proxy) accept() {
	for {
		client, err := p.l.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		p.conns = append(p.conns, client, server)
		p.mu.Unlock()
		var inserting atomic.Bool
		p.wg.Go(func() {
			_, _ = io.Copy(server, io.TeeReader(client, spy{&inserting}))
			_ = server.Close()
		})
		p.wg.Go(func() {
			p.answers(client, server, &inserting)
			_ = client.Close()
			_ = server.Close()
		})
	}
}

func (p *proxy) answers(client, server net.Conn, inserting *atomic.Bool) {
	buf := make([]byte, 32<<10)
	for {
		n, err := server.Read(buf)
		if n > 0 && inserting.Swap(false) && p.countdown.Add(-1) == 0 {
			return // the answer to an INSERT is lost
		}
		if n > 0 {
			if _, err := client.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// spy notes that an INSERT went by; requests of the HTTP client begin a packet.
type spy struct{ inserting *atomic.Bool }

func (s spy) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("query=INSERT")) {
		s.inserting.Store(true)
	}
	return len(b), nil
}
