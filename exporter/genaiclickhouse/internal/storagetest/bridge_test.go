package storagetest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ClickHouse/ch-go/compress"
	chproto "github.com/ClickHouse/ch-go/proto"
	"github.com/ClickHouse/clickhouse-go/v2/lib/column"
	"github.com/ClickHouse/clickhouse-go/v2/lib/proto"
	"github.com/stretchr/testify/require"
)

// bridge speaks ClickHouse's native protocol to clients and HTTP to the engine, which has
// no native protocol of its own. What it forwards is stored by the real engine; what it
// speaks is what clickhouse-go needs of the protocol at one revision.
type bridge struct {
	base string
	l    net.Listener
	wg   sync.WaitGroup
	// loseAnswer is the number of INSERTs until the one whose answer is lost.
	loseAnswer atomic.Int64

	mu    sync.Mutex
	conns []net.Conn
}

// bridgeRevision is that of ClickHouse 20.10: old enough to have few parts, new enough for
// settings as text.
const bridgeRevision = proto.DBMS_MIN_REVISION_WITH_INTERSERVER_SECRET

// newBridge returns a bridge to the engine at base and its address.
func newBridge(t *testing.T, base string) (*bridge, string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	b := &bridge{base: base, l: l}
	b.wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			b.mu.Lock()
			b.conns = append(b.conns, conn)
			b.mu.Unlock()
			b.wg.Go(func() {
				defer conn.Close()
				c := &bridged{b: b, out: conn, in: chproto.NewReader(conn)}
				if err := c.serve(); err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) && !errors.Is(err, errLost) {
					t.Errorf("bridge: %v", err)
				}
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		b.mu.Lock()
		for _, conn := range b.conns {
			_ = conn.Close()
		}
		b.mu.Unlock()
		b.wg.Wait()
	})
	return b, l.Addr().String()
}

var errLost = errors.New("the answer is lost on purpose")

// bridged is one connection.
type bridged struct {
	b              *bridge
	out            net.Conn
	in             *chproto.Reader
	user, password string
}

// texts and numbers skip or read parts of a packet.
func (c *bridged) texts(n int) (last string, err error) {
	for range n {
		if last, err = c.in.Str(); err != nil {
			return "", err
		}
	}
	return last, nil
}

func (c *bridged) numbers(n int) (last uint64, err error) {
	for range n {
		if last, err = c.in.UVarInt(); err != nil {
			return 0, err
		}
	}
	return last, nil
}

func (c *bridged) serve() error {
	if err := c.hello(); err != nil {
		return err
	}
	for {
		packet, err := c.in.ReadByte()
		if err != nil {
			return err
		}
		switch packet {
		case proto.ClientPing:
			_, err = c.out.Write([]byte{proto.ServerPong})
		case proto.ClientQuery:
			err = c.query()
		case proto.ClientCancel:
			return io.EOF
		default:
			err = fmt.Errorf("packet %d", packet)
		}
		if err != nil {
			return err
		}
	}
}

func (c *bridged) hello() error {
	if packet, err := c.in.ReadByte(); err != nil || packet != proto.ClientHello {
		return errors.Join(err, io.EOF)
	}
	_, err1 := c.texts(1)
	_, err2 := c.numbers(3)
	_, err3 := c.texts(1)
	var err4, err5 error
	c.user, err4 = c.in.Str()
	c.password, err5 = c.in.Str()
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		return err
	}
	if _, err := c.post(nil, []byte("SELECT 1")); err != nil {
		return c.exception(err)
	}
	var buf chproto.Buffer
	buf.PutByte(proto.ServerHello)
	buf.PutString("ClickHouse")
	for _, n := range []uint64{26, 7, bridgeRevision} {
		buf.PutUVarInt(n)
	}
	buf.PutString("UTC")
	buf.PutString("bridge")
	buf.PutUVarInt(3)
	_, err := c.out.Write(buf.Buf)
	return err
}

func (c *bridged) query() error {
	settings := url.Values{}
	_, err1 := c.texts(1) // id
	_, err2 := c.in.ReadByte()
	_, err3 := c.texts(3)
	_, err4 := c.in.ReadByte()
	_, err5 := c.texts(3)
	_, err6 := c.numbers(3)
	_, err7 := c.texts(1)
	_, err8 := c.numbers(1)
	if err := errors.Join(err1, err2, err3, err4, err5, err6, err7, err8); err != nil {
		return err
	}
	for {
		key, err := c.in.Str()
		if err != nil {
			return err
		}
		if key == "" {
			break
		}
		_, err1 := c.numbers(1)
		value, err2 := c.in.Str()
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		settings.Set(key, value)
	}
	_, err1 = c.texts(1) // secret
	_, err2 = c.numbers(1)
	compressed, err3 := c.in.Bool()
	text, err4 := c.in.Str()
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return err
	}
	// An empty block says that there are no external tables.
	if packet, err := c.in.ReadByte(); err != nil || packet != proto.ClientData {
		return errors.Join(err, io.EOF)
	}
	if _, err := c.block(compressed); err != nil {
		return err
	}
	if strings.HasPrefix(text, "INSERT INTO") {
		return c.insert(text, settings, compressed)
	}
	settings.Set("default_format", "Native")
	settings.Set("client_protocol_version", strconv.Itoa(bridgeRevision))
	answer, err := c.post(settings, []byte(text))
	if err != nil {
		return c.exception(err)
	}
	from := chproto.NewReader(bytes.NewReader(answer))
	for {
		b := newBlock()
		if err := b.Decode(from, bridgeRevision); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		if err := c.data(b, compressed); err != nil {
			return err
		}
	}
	_, err = c.out.Write([]byte{proto.ServerEndOfStream})
	return err
}

func newBlock() *proto.Block {
	return &proto.Block{ServerContext: &column.ServerContext{Revision: bridgeRevision, VersionMajor: 26, VersionMinor: 7}}
}

// insert tells the client the columns' types, takes its blocks, and sends them on.
func (c *bridged) insert(text string, settings url.Values, compressed bool) error {
	table, rest, _ := strings.Cut(strings.TrimPrefix(text, "INSERT INTO "), " ")
	list, _, _ := strings.Cut(strings.TrimPrefix(rest, "("), ")")
	described, err := c.post(url.Values{"default_format": {"TabSeparatedRaw"}}, []byte("DESCRIBE TABLE "+table))
	if err != nil {
		return c.exception(err)
	}
	types := map[string]string{}
	for line := range strings.Lines(string(described)) {
		parts := strings.Split(line, "\t")
		types[parts[0]] = parts[1]
	}
	sample := newBlock()
	for name := range strings.SplitSeq(list, ", ") {
		name = strings.Trim(name, "`")
		if types[name] == "" {
			return fmt.Errorf("%q has no column %q: %s", text, name, described)
		}
		if err := sample.AddColumn(name, column.Type(types[name])); err != nil {
			return fmt.Errorf("column %q: %w", name, err)
		}
	}
	if err := c.data(sample, compressed); err != nil {
		return err
	}
	var body chproto.Buffer
	for {
		if packet, err := c.in.ReadByte(); err != nil || packet != proto.ClientData {
			return errors.Join(err, io.EOF) // the client has given up
		}
		b, err := c.block(compressed)
		if err != nil {
			return err
		}
		if len(b.Columns) == 0 {
			break
		}
		if err := b.Encode(&body, 0); err != nil {
			return err
		}
	}
	settings.Set("query", text)
	if _, err := c.post(settings, body.Buf); err != nil {
		return c.exception(err)
	}
	if c.b.loseAnswer.Add(-1) == 0 {
		return errLost
	}
	_, err = c.out.Write([]byte{proto.ServerEndOfStream})
	return err
}

// block reads the rest of a data packet.
func (c *bridged) block(compressed bool) (*proto.Block, error) {
	if _, err := c.in.Str(); err != nil {
		return nil, err
	}
	if compressed {
		c.in.EnableCompression()
		defer c.in.DisableCompression()
	}
	b := newBlock()
	return b, b.Decode(c.in, bridgeRevision)
}

func (c *bridged) data(b *proto.Block, compressed bool) error {
	var head, content chproto.Buffer
	head.PutByte(proto.ServerData)
	head.PutString("")
	if err := b.EncodeHeader(&content, bridgeRevision); err != nil {
		return err
	}
	for i, column := range b.Columns {
		if b.Rows() == 0 {
			// A column without rows is its name and type; EncodeColumn adds a prefix to some.
			content.PutString(column.Name())
			content.PutString(string(column.Type()))
		} else if err := b.EncodeColumn(&content, bridgeRevision, i); err != nil {
			return err
		}
	}
	if compressed {
		w := compress.NewWriter(0, compress.LZ4)
		if err := w.Compress(content.Buf); err != nil {
			return err
		}
		content.Buf = w.Data
	}
	_, err := c.out.Write(append(head.Buf, content.Buf...))
	return err
}

// refused is the engine's answer to a statement that failed.
type refused struct {
	code int
	text string
}

func (e *refused) Error() string { return e.text }

func (c *bridged) post(query url.Values, body []byte) ([]byte, error) {
	r, err := http.NewRequest(http.MethodPost, c.b.base+"/?"+query.Encode(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("X-ClickHouse-User", c.user)
	r.Header.Set("X-ClickHouse-Key", c.password)
	answer, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		code, _ := strconv.Atoi(answer.Header.Get("X-ClickHouse-Exception-Code"))
		return nil, &refused{code, string(text)}
	}
	return text, nil
}

// exception passes the engine's refusal on; another error ends the connection.
func (c *bridged) exception(err error) error {
	var no *refused
	if !errors.As(err, &no) {
		return errors.Join(err, io.EOF)
	}
	var buf chproto.Buffer
	buf.PutByte(proto.ServerException)
	buf.PutInt32(int32(no.code))
	buf.PutString("DB::Exception")
	buf.PutString("DB::Exception: " + no.text)
	buf.PutString("")
	buf.PutBool(false)
	_, err = c.out.Write(buf.Buf)
	return err
}
