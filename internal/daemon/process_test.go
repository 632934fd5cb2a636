package daemon

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"driftline/detector"
	"driftline/internal/chconn"
	"driftline/internal/clock"
	"driftline/internal/engine/enginetest"
	"driftline/schema"
)

// processEnv has this test binary be a detector instead of running tests.
const processEnv = "DRIFTLINE_TEST_DETECTOR_PROCESS"

func TestMain(m *testing.M) {
	if text, ok := os.LookupEnv(processEnv); ok {
		if err := beDetector(text, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	enginetest.Main(m)
}

// setup is what a detector process is told.
type setup struct {
	DSN, Database, Alertmanager, Webhook string
}

// settings are the detector's, of a process and of whoever looks over its shoulder.
func settings() detector.Config {
	cfg := detector.DefaultConfig()
	cfg.EndsAfter = 40 * time.Minute
	cfg.MaxEvalDelay = cfg.EvalDelay // the past was stored all at once
	// A short life: little to read, and quickly over. It begins pending, however large the effect.
	cfg.SeasonDays, cfg.BaselineWindow, cfg.LongWindow, cfg.ShortWindow, cfg.ClearRounds = 0, time.Hour, 10*time.Minute, 2*time.Minute, 2
	cfg.NoDataGrace, cfg.Saturation.Window = cfg.LongWindow, cfg.LongWindow
	cfg.FastFactor = 1e9
	return cfg
}

// beDetector runs a round for each line of in, the time of the round in Unix seconds, and
// answers each with a line.
func beDetector(text string, in io.Reader, out io.Writer) error {
	var s setup
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return err
	}
	target, err := chconn.Parse(s.DSN, s.Database)
	if err != nil {
		return err
	}
	ctx := context.Background()
	clk := clock.NewManual(time.Unix(0, 0))
	d, err := New(ctx, Options{Target: target, Schema: schema.Options{Database: s.Database}, UIListen: "127.0.0.1:0", Detector: settings(), Clock: clk,
		Alertmanagers: []string{s.Alertmanager}, Webhooks: []string{s.Webhook}, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	if err != nil {
		return err
	}
	defer d.Close(ctx)
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		at, err := strconv.ParseInt(lines.Text(), 10, 64)
		if err != nil {
			return err
		}
		answer := "ok"
		if _, err := d.Engine.Evaluate(ctx, time.Unix(at, 0).UTC()); err != nil {
			answer = strconv.Quote(err.Error())
		}
		fmt.Fprintln(out, answer)
	}
	return lines.Err()
}

// process is a detector in a process of its own.
type process struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   *bufio.Reader
	log   *strings.Builder
	ended sync.Once
}

func startProcess(t *testing.T, s setup) *process {
	t.Helper()
	text, err := json.Marshal(s)
	require.NoError(t, err)
	p := &process{cmd: exec.Command(os.Args[0]), log: &strings.Builder{}}
	p.cmd.Env = append(os.Environ(), processEnv+"="+string(text))
	p.cmd.Stderr = p.log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p.in, err = p.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	p.out = bufio.NewReader(out)
	require.NoError(t, p.cmd.Start())
	t.Cleanup(p.kill)
	return p
}

// kill ends the process by SIGKILL and returns once it is gone.
func (p *process) kill() {
	p.ended.Do(func() {
		_ = p.cmd.Process.Kill()
		_, _ = p.cmd.Process.Wait()
	})
}

// round has the process run a round as of at, and says whether it outlived that.
func (p *process) round(t *testing.T, at time.Time) (alive bool) {
	t.Helper()
	_, err := fmt.Fprintln(p.in, at.Unix())
	if err != nil {
		return false
	}
	answer, err := p.out.ReadString('\n')
	if err != nil {
		return false
	}
	require.Equal(t, "ok\n", answer, p.log.String())
	return true
}
