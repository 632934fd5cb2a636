package storagetest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/open-telemetry/opentelemetry-collector-contrib/extension/storage/filestorage"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/exporter/exportertest"
	"go.opentelemetry.io/collector/extension/extensiontest"
	"go.uber.org/zap"

	"driftline/exporter/genaiclickhouse"
	"driftline/internal/rows"
)

// envChild makes the test binary be a small collector that a test may kill: the exporter
// with a persistent queue, fed over standard input.
const envChild = "DRIFTLINE_STORAGETEST_CHILD"

// childSpec is what the child is told.
type childSpec struct {
	Endpoint, Database, Dir string
	Seed                    uint64
	// StartNS is the day that batches are made of, in Unix nanoseconds.
	StartNS int64
	// DiskBytes, if not 0, is the size of the disk that holds Dir.
	DiskBytes int64
	// QueueBytes, if not 0, is queue_size.
	QueueBytes int64
}

// childRows are the rows of one batch, the same in parent and child.
func childRows(seed, batch uint64) []rows.Row {
	rng := rand.New(rand.NewPCG(seed, batch))
	var out []rows.Row
	for _, table := range rows.Tables {
		for range 10 {
			out = append(out, randomRow(rng, table))
		}
	}
	return out
}

// childMain obeys "send N" with "ack N" or "nak N: why", and "stop" with "stopped".
func childMain() int {
	var spec childSpec
	if err := json.Unmarshal([]byte(os.Getenv(envChild)), &spec); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	start = time.Unix(0, spec.StartNS).UTC()
	if err := childRun(spec); err != nil {
		fmt.Println("failed: " + oneLine(err))
		return 1
	}
	return 0
}

func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

func childRun(spec childSpec) error {
	if spec.DiskBytes > 0 {
		if err := syscall.Mount("", "/", "", syscall.MS_PRIVATE|syscall.MS_REC, ""); err != nil {
			return fmt.Errorf("make mounts private: %w", err)
		}
		if err := syscall.Mount("tmpfs", spec.Dir, "tmpfs", 0, fmt.Sprint("size=", spec.DiskBytes)); err != nil {
			return fmt.Errorf("mount a small disk: %w", err)
		}
	}
	log, err := zap.NewDevelopment()
	if err != nil {
		return err
	}
	sf := filestorage.NewFactory()
	sc := sf.CreateDefaultConfig().(*filestorage.Config)
	sc.Directory = spec.Dir
	storage, err := sf.Create(ctx, extensiontest.NewNopSettings(sf.Type()), sc)
	if err != nil {
		return err
	}
	if err := storage.Start(ctx, componenttest.NewNopHost()); err != nil {
		return err
	}
	factory := genaiclickhouse.NewFactory()
	cfg := factory.CreateDefaultConfig().(*genaiclickhouse.Config)
	cfg.Endpoint, cfg.Database = spec.Endpoint, spec.Database
	withQueue(cfg)
	cfg.QueueConfig.Get().StorageID = &storageID
	if spec.QueueBytes > 0 {
		cfg.QueueConfig.Get().QueueSize = spec.QueueBytes
		cfg.QueueConfig.Get().Batch.Get().MinSize = 0
	}
	if err := cfg.Validate(); err != nil {
		return err
	}
	set := exportertest.NewNopSettings(factory.Type())
	set.ID = component.NewID(factory.Type())
	tel := componenttest.NewTelemetry()
	set.TelemetrySettings = tel.NewTelemetrySettings()
	set.Logger = log
	exp, err := factory.CreateTraces(ctx, set, cfg)
	if err != nil {
		return err
	}
	if err := exp.Start(ctx, storageHost{storage}); err != nil {
		return err
	}
	fmt.Println("started")
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		word, arg, _ := strings.Cut(in.Text(), " ")
		switch word {
		case "send":
			var batch uint64
			_, _ = fmt.Sscan(arg, &batch)
			if err := exp.ConsumeTraces(ctx, numbered(int(batch)*1000, childRows(spec.Seed, batch)...)); err != nil {
				fmt.Printf("nak %d: %s\n", batch, oneLine(err))
				continue
			}
			fmt.Printf("ack %d\n", batch)
		case "stop":
			if err := exp.Shutdown(ctx); err != nil {
				return err
			}
			if err := storage.Shutdown(ctx); err != nil {
				return err
			}
			return told(tel)
		}
	}
	return in.Err()
}

// told prints what the child's exporter has counted.
func told(tel *componenttest.Telemetry) error {
	r := &rig{tel: tel}
	counts := map[string]int64{}
	for _, name := range ledgerNames {
		counts[name] = total(r.sums(name))
	}
	text, err := json.Marshal(counts)
	if err != nil {
		return err
	}
	fmt.Println("stopped " + string(text))
	return nil
}

var ledgerNames = []string{
	"spans_received", "spans_stored", "spans_skipped", "spans_refused", "rows_received", "rows_written", "rows_dropped", "rows_refused",
}

// child is a running child.
type child struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
	log *output
}

// output is what a child has logged so far.
type output struct {
	mu   sync.Mutex
	text strings.Builder
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

func startChild(t *testing.T, spec childSpec) *child {
	t.Helper()
	text, err := json.Marshal(spec)
	require.NoError(t, err)
	c := &child{t: t, cmd: exec.Command(os.Args[0]), log: &output{}}
	c.cmd.Env = append(os.Environ(), envChild+"="+string(text))
	c.cmd.Stderr = c.log
	if spec.DiskBytes > 0 {
		// A mount namespace of its own: the disk is gone with the child.
		c.cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
		if os.Geteuid() != 0 {
			c.cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
			c.cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
			c.cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
		}
	}
	c.in, err = c.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := c.cmd.StdoutPipe()
	require.NoError(t, err)
	c.out = bufio.NewScanner(out)
	require.NoError(t, c.cmd.Start())
	t.Cleanup(c.kill)
	require.Equal(t, "started", c.line())
	return c
}

func (c *child) say(text string) {
	c.t.Helper()
	_, err := io.WriteString(c.in, text+"\n")
	require.NoError(c.t, err)
}

func (c *child) line() string {
	c.t.Helper()
	if !c.out.Scan() {
		c.kill()
		c.t.Fatalf("the child ended: %v\n%s", c.out.Err(), c.log)
	}
	return c.out.Text()
}

// send returns "" once the child's exporter has taken the batch, otherwise why not.
func (c *child) send(batch int) string {
	c.t.Helper()
	c.say(fmt.Sprint("send ", batch))
	answer := c.line()
	if answer == fmt.Sprint("ack ", batch) {
		return ""
	}
	require.True(c.t, strings.HasPrefix(answer, "nak "), answer)
	return answer
}

// kill ends the child as kill -9 does.
func (c *child) kill() {
	if c.cmd.ProcessState == nil {
		_ = c.cmd.Process.Kill()
		_ = c.cmd.Wait()
	}
}

// stop ends the child in order, checks that its ledger closes, and returns it.
func (c *child) stop() map[string]int64 {
	c.t.Helper()
	c.say("stop")
	text, ok := strings.CutPrefix(c.line(), "stopped ")
	require.True(c.t, ok)
	require.NoError(c.t, c.cmd.Wait(), c.log.String())
	l := map[string]int64{}
	require.NoError(c.t, json.Unmarshal([]byte(text), &l))
	require.Equal(c.t, l["spans_received"], l["spans_stored"]+l["spans_skipped"]+l["spans_refused"], "spans")
	require.Equal(c.t, l["rows_received"], l["rows_written"]+l["rows_dropped"]+l["rows_refused"], "rows")
	return l
}
