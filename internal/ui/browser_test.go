package ui

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"driftline/internal/clock"
)

// browser starts headless Chromium with a profile of its own. These tests need it: the
// pages' looks and keyboard behaviour cannot be checked otherwise.
func browser(t *testing.T) context.Context {
	t.Helper()
	path := os.Getenv("CHROMIUM")
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path == "" {
			path, _ = exec.LookPath(name)
		}
	}
	require.NotEmpty(t, path, "Chromium is needed: install the package chromium, or name a binary in the environment variable CHROMIUM")
	profile, err := os.MkdirTemp("", "driftline-ui-")
	require.NoError(t, err)
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun, chromedp.UserDataDir(profile),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-sync", true), chromedp.WSURLReadTimeout(60*time.Second))
	// Chromium's helpers may write for a moment after it was told to end.
	t.Cleanup(func() {
		for range 50 {
			if os.RemoveAll(profile) == nil {
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
	})
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	t.Cleanup(cancel)
	ctx, stopProcess := chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(stopProcess)
	ctx, closeTab := chromedp.NewContext(ctx)
	t.Cleanup(func() { _ = chromedp.Cancel(ctx); closeTab() })
	require.NoError(t, chromedp.Run(ctx), "start %s", path)
	return ctx
}

// watch notes what a page must not do.
type watch struct {
	mu       sync.Mutex
	problems []string
}

func (w *watch) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.problems = append(w.problems, fmt.Sprintf(format, args...))
}

func (w *watch) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.problems
	w.problems = nil
	return out
}

func listen(ctx context.Context, base string) *watch {
	w := &watch{}
	chromedp.ListenTarget(ctx, func(ev any) {
		switch ev := ev.(type) {
		case *log.EventEntryAdded:
			if ev.Entry.Level == log.LevelError || ev.Entry.Level == log.LevelWarning {
				w.note("log: %s %s", ev.Entry.Text, ev.Entry.URL)
			}
		case *runtime.EventConsoleAPICalled:
			w.note("console: %s", ev.Type)
		case *runtime.EventExceptionThrown:
			w.note("exception: %s", ev.ExceptionDetails.Error())
		case *network.EventRequestWillBeSent:
			if !strings.HasPrefix(ev.Request.URL, base) {
				w.note("request outside the server: %s", ev.Request.URL)
			}
		case *network.EventResponseReceived:
			if ev.Response.Status >= 400 {
				w.note("status %d for %s", ev.Response.Status, ev.Response.URL)
			}
		}
	})
	return w
}

func serve(t *testing.T, o Options) string {
	t.Helper()
	h, err := New(o)
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := httptest.NewUnstartedServer(h)
	_ = s.Listener.Close()
	s.Listener = l
	s.Config = NewServer(h)
	s.Start()
	t.Cleanup(s.Close)
	return s.URL
}

const audit = `(() => {
  const out = [];
  const need = (ok, what) => { if (!ok) out.push(what); };
  need(document.documentElement.lang === 'en', 'no language');
  need(document.querySelectorAll('h1').length === 1, 'not exactly one h1');
  need(document.querySelectorAll('main').length === 1 && document.querySelector('header') && document.querySelector('footer') && document.querySelector('nav[aria-label]'), 'landmarks missing');
  let level = 0;
  for (const h of document.querySelectorAll('h1,h2,h3,h4')) { const l = +h.tagName[1]; need(l <= level + 1, 'heading level skipped at ' + h.textContent); level = l; }
  const ids = [...document.querySelectorAll('[id]')].map(e => e.id);
  need(new Set(ids).size === ids.length, 'ids repeat: ' + ids.filter((x, i) => ids.indexOf(x) !== i));
  for (const t of document.querySelectorAll('table')) {
    need(t.caption && t.caption.textContent.trim(), 'table without caption');
    for (const th of t.querySelectorAll('th')) need(th.scope, 'th without scope in ' + t.caption.textContent);
  }
  for (const s of document.querySelectorAll('svg.chart')) {
    need(s.getAttribute('role') === 'img' && s.querySelector(':scope > title') && s.querySelector(':scope > desc'), 'chart without title or description');
    for (const id of (s.getAttribute('aria-labelledby') || '').split(' ')) need(document.getElementById(id), 'chart label missing: ' + id);
  }
  for (const i of document.querySelectorAll('input')) need(i.labels.length, 'input without label');
  for (const e of document.querySelectorAll('[aria-labelledby]')) for (const id of e.getAttribute('aria-labelledby').split(' ')) need(document.getElementById(id), 'aria-labelledby points nowhere: ' + id);
  need(document.scripts.length === 0, 'there is a script');
  need(document.querySelectorAll('[style]').length === 0, 'there is a style attribute');
  need(document.documentElement.scrollWidth <= window.innerWidth, 'page scrolls sideways: ' + document.documentElement.scrollWidth + ' > ' + window.innerWidth + ' ' +
    [...document.querySelectorAll('main *')].filter(e => e.getBoundingClientRect().right > window.innerWidth + 1 && !e.closest('.scroll')).slice(0, 3).map(e => e.tagName + '.' + e.className));
  need(getComputedStyle(document.body).marginTop === '0px', 'style sheet did not load');
  return out;
})()`

func TestPagesInBrowser(t *testing.T) {
	base := serve(t, Options{Source: newFixture(), Clock: clock.NewManual(now), Version: "test"})
	ctx := browser(t)
	w := listen(ctx, base)
	shots := os.Getenv("DRIFTLINE_UI_SHOTS") // a folder to put pictures of the pages in
	pages := map[string]struct {
		path   string
		tables int
		charts int
		text   []string
	}{
		"overview": {"/", 3, 0, []string{"Firing alerts", "insufficient traffic 12 of 50 needed", "unknown", "shop-assistant · planner", "4.19×"}},
		"alerts":   {"/alerts", 1, 0, []string{"Alerts with their latest state"}},
		"alert":    {"/alerts/" + surgeID, 12, 16, []string{"What to do first", "What not to do", "before the 504 alert", "Retried twice or more", "2026.3.1", "fires at"}},
		"empty":    {"/alerts/" + evilID, 1, 8, []string{"No data in this period", "No trace of this slice"}},
		"trace":    {"/traces/" + traceA, 5, 2, []string{"Legend and totals", "failed attempt", "The segments sum to", "Spans of this request are missing"}},
	}
	for name, p := range pages {
		for _, scheme := range []string{"light", "dark"} {
			for _, width := range []int64{1280, 380} {
				t.Run(fmt.Sprintf("%s %s %d", name, scheme, width), func(t *testing.T) {
					var problems []string
					var tables, charts int
					var text, background string
					var shot []byte
					require.NoError(t, chromedp.Run(ctx,
						log.Enable(), network.Enable(),
						chromedp.EmulateViewport(width, 900),
						emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}),
						chromedp.Navigate(base+p.path),
						chromedp.Evaluate(audit, &problems),
						chromedp.Evaluate(`document.querySelectorAll('table').length`, &tables),
						chromedp.Evaluate(`document.querySelectorAll('svg.chart').length`, &charts),
						chromedp.Evaluate(`document.body.textContent`, &text),
						chromedp.Evaluate(`getComputedStyle(document.body).backgroundColor`, &background),
					))
					if shots != "" {
						require.NoError(t, chromedp.Run(ctx, chromedp.FullScreenshot(&shot, 100)))
						require.NoError(t, os.WriteFile(filepath.Join(shots, fmt.Sprintf("%s-%s-%d.png", name, scheme, width)), shot, 0o644))
					}
					require.Empty(t, problems)
					require.Empty(t, w.take())
					require.GreaterOrEqual(t, tables, p.tables)
					require.GreaterOrEqual(t, charts, p.charts)
					for _, s := range p.text {
						require.Contains(t, text, s)
					}
					require.Equal(t, scheme == "light", background == "rgb(255, 255, 255)", background)
				})
			}
		}
	}
}

func TestKeyboard(t *testing.T) {
	base := serve(t, Options{Source: newFixture(), Clock: clock.NewManual(now)})
	ctx := browser(t)
	tab := chromedp.KeyEvent("\t")
	var first, outline, hash, focused, href string
	var top float64
	still := emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-reduced-motion", Value: "reduce"}})
	require.NoError(t, chromedp.Run(ctx, chromedp.EmulateViewport(1280, 900), still, chromedp.Navigate(base+"/"), tab,
		chromedp.Evaluate(`document.activeElement.textContent`, &first),
		chromedp.Evaluate(`document.activeElement.getBoundingClientRect().top`, &top),
		chromedp.Evaluate(`getComputedStyle(document.activeElement).outlineStyle + ' ' + getComputedStyle(document.activeElement).outlineWidth`, &outline),
		chromedp.KeyEvent("\r"),
		chromedp.Evaluate(`location.hash`, &hash),
		chromedp.Evaluate(`document.activeElement.id`, &focused),
		tab,
		chromedp.Evaluate(`document.activeElement.getAttribute('href')`, &href),
	))
	require.Equal(t, "Skip to the content", first)
	require.GreaterOrEqual(t, top, 0.0, "the skip link is on screen when focused")
	require.Equal(t, "solid 3px", outline)
	require.Equal(t, "#main", hash)
	require.Equal(t, "main", focused)
	require.Equal(t, "/alerts/"+splitID, href, "the first stop in the content is the first firing alert")

	// Every stop of the page shows where the focus is.
	var hidden []string
	require.NoError(t, chromedp.Run(ctx, chromedp.Navigate(base+"/alerts/"+surgeID)))
	for range 30 {
		var bad string
		require.NoError(t, chromedp.Run(ctx, tab, chromedp.Evaluate(`(() => { const e = document.activeElement; const s = getComputedStyle(e); return e === document.body || s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) >= 2 ? '' : e.outerHTML.slice(0, 120); })()`, &bad)))
		if bad != "" {
			hidden = append(hidden, bad)
		}
	}
	require.Empty(t, hidden)

	// A numbers table opens by keyboard.
	var open bool
	require.NoError(t, chromedp.Run(ctx, chromedp.Focus("details summary", chromedp.ByQuery), chromedp.KeyEvent("\r"),
		chromedp.Evaluate(`document.querySelector('details').open`, &open)))
	require.True(t, open)
}

func TestBrowserReloadsUntilToldNotTo(t *testing.T) {
	var mu sync.Mutex
	hits := map[string]int{}
	h, err := New(Options{Source: newFixture(), Clock: clock.NewManual(now), Refresh: time.Second})
	require.NoError(t, err)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		hits[r.URL.RequestURI()]++
		mu.Unlock()
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	count := func(uri string) int {
		mu.Lock()
		defer mu.Unlock()
		return hits[uri]
	}
	ctx := browser(t)
	require.NoError(t, chromedp.Run(ctx, chromedp.Navigate(s.URL+"/")))
	require.Eventually(t, func() bool { return count("/") >= 3 }, 20*time.Second, 50*time.Millisecond, "the policy must not stop the page's own reload")
	require.NoError(t, chromedp.Run(ctx, chromedp.Navigate(s.URL+"/?refresh=off")))
	var meta int
	require.NoError(t, chromedp.Run(ctx, chromedp.Evaluate(`document.querySelectorAll('meta[http-equiv]').length`, &meta)))
	require.Zero(t, meta)
}
