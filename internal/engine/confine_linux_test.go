package engine_test

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"driftline/internal/engine/enginetest"
)

// The kernel keeps the engine from files outside its folder, whatever name a statement finds for them; the same statement without
// confinement shows that it would read the file.
func TestTheKernelConfinesTheEngine(t *testing.T) {
	if _, err := enginetest.Binary(); err != nil {
		t.Fatal(err)
	}
	library := os.Getenv("DRIFTLINE_LIBCHDB")
	if library == "" {
		library = "../../.libchdb/libchdb.so"
	}
	library, err := filepath.Abs(library)
	must(t, err)
	t.Setenv("DRIFTLINE_LIBCHDB", library)
	t.Chdir(t.TempDir())
	must(t, os.WriteFile("secret.csv", []byte("a secret of this machine\n"), 0o600))
	read := func(e *enginetest.Engine) string {
		// No list of names has this one: the default database shows the working directory's files as tables.
		_, _, text, err := call(t, e, http.MethodPost, nil, strings.NewReader("SELECT * FROM `secret.csv`"), nil)
		must(t, err)
		return text
	}
	open := enginetest.Start(t, "--confine=off")
	if text := read(open); !strings.Contains(text, "a secret of this machine") {
		t.Errorf("without confinement the file cannot be read either, so this test shows nothing: %s", text)
	}
	e := enginetest.Start(t)
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 || abi < 2 {
		t.Logf("this kernel has no Landlock of version 2 (%d, %v), so nothing is confined here", abi, errno)
		return
	}
	if confined := read(e); strings.Contains(confined, "secret of") || !strings.Contains(confined, "DB::Exception") {
		t.Errorf("confined, the engine still read %q", confined)
	}
	if abi < 4 {
		t.Logf("this kernel's Landlock (version %d) does not bear on TCP", abi)
		return
	}
	if text, reached := dictionaryElsewhere(t, open); !reached {
		t.Errorf("without confinement no connection was made either, so this test shows nothing: %s", text)
	}
	if text, reached := dictionaryElsewhere(t, e); reached {
		t.Errorf("confined, the engine still opened a TCP connection: %s", text)
	}
}

// dictionaryElsewhere has the engine fill a dictionary from a server, and says whether the server was reached.
func dictionaryElsewhere(t *testing.T, e *enginetest.Engine) (text string, reached bool) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.2:0")
	must(t, err)
	accepted := make(chan bool, 1)
	go func() {
		c, err := listener.Accept()
		if err == nil {
			// An exception of the native protocol, code 1 and empty texts: a client that just loses its connection tries again.
			_, _ = c.Write([]byte{2, 1, 0, 0, 0, 0, 0, 0, 0})
			c.Close()
		}
		accepted <- err == nil
	}()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	must(t, err)
	post(t, e, nil, "CREATE DICTIONARY d (k UInt64, v String) PRIMARY KEY k SOURCE(CLICKHOUSE(HOST '127.0.0.2' PORT "+port+" USER 'u' TABLE x DB y)) LAYOUT(FLAT()) LIFETIME(0)")
	_, _, text, err = call(t, e, http.MethodPost, nil, strings.NewReader("SELECT dictGet('d', 'v', 1)"), nil)
	must(t, err)
	must(t, listener.Close())
	return text, <-accepted
}
