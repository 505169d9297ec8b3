package reload

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/answer"
)

// TestSwap checks that new calls run on the new version, and that a running call ends on the version on which it began.
func TestSwap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := begin(t, "version=1.0.0", "")
		var updates []Update
		cancel := f.Updates().Subscribe(func(u Update) { updates = append(updates, u) })
		if r := f.reload(Options{}); len(r.Plugins) != 0 || r.Config.Changed || r.Refused() {
			t.Errorf("nothing changed: %+v", r)
		}
		held := f.hold("g")
		old := f.Programs.Running()[0]
		f.Write("p", "version=2.0.0 add=extra")
		if p := one(t, f.reload(Options{}), Swapped); p.From != "1.0.0" || p.To != "2.0.0" || p.Draining != 1 || len(p.Changes) != 1 || p.Changes[0].Tool != "extra" {
			t.Errorf("%+v", p)
		}
		if v := f.version(); v != "2.0.0" {
			t.Errorf("version %s serves", v)
		}
		if res := f.call("extra", `{"text":"x"}`); res.Error != nil {
			t.Error(res.Error)
		}
		time.Sleep(time.Minute)
		if old.Ended() {
			t.Error("the old program ended during its call")
		}
		f.Programs.Gate("g").Open()
		if res := <-held; res.Error != nil || res.Run.PluginVersion != "1.0.0" {
			t.Errorf("%+v", res)
		}
		synctest.Wait()
		if !old.Ended() || len(f.Programs.Running()) != 1 {
			t.Errorf("the old program runs after its last call; %d programs run", len(f.Programs.Running()))
		}
		if len(updates) != 1 || len(updates[0].Tools) != 1 || updates[0].Tools[0].Tool != "extra" {
			t.Errorf("updates %+v", updates)
		}
		cancel()
		f.Write("p", "version=3.0.0")
		f.reload(Options{AcceptChanges: true})
		if len(updates) != 1 {
			t.Error("a subscriber that left got an update")
		}
	})
}

// TestNoCallIsLost checks that no call fails while versions are swapped under many callers, and that no caller sees an
// older version than before.
func TestNoCallIsLost(t *testing.T) {
	f := begin(t, "version=1.0.0", "")
	const callers, swaps = 4, 12
	done := make(chan struct{})
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			last := ""
			for n := 0; ; n++ {
				select {
				case <-done:
					return
				default:
				}
				res := f.begun(fmt.Sprint("s", i), "where", "{}").Run(context.Background(), answer.Nobody{})
				if res.Error != nil || res.Run.PluginVersion < last {
					t.Errorf("call %d after version %q: version %q, %v", n, last, res.Run.PluginVersion, res.Error)
					return
				}
				last = res.Run.PluginVersion
			}
		})
	}
	for i := range swaps {
		version := fmt.Sprintf("1.%d.0", i+1)
		if i >= 9 {
			version = fmt.Sprintf("2.%d.0", i-9)
		}
		f.Write("p", "version="+version)
		if p := one(t, f.reload(Options{}), Swapped); p.To != version {
			t.Errorf("%+v", p)
		}
	}
	close(done)
	wg.Wait()
}

// TestRefusedVersions checks that a version that fails a check does not replace the one that serves. An automatic
// reload does not try this version again.
func TestRefusedVersions(t *testing.T) {
	for words, want := range map[string]string{
		"start=exit":      "exited before its handshake: exit status 3",
		"start=hang":      "no handshake within 5s",
		"start=deaf":      "did not answer within 5s",
		"newer=yes":       "needs host 99.0.0 or later",
		"drop=where":      "where: the tool was removed",
		"require=yes":     "echo: the new parameter reason is required",
		"unhealthy=hot":   "reports the health status unhealthy: hot",
		"needs=exec":      "start programs",
		"name=UPPER_CASE": "UPPER_CASE",
	} {
		t.Run(words, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := begin(t, "version=1.0.0", `start_timeout = "5s"`)
				before := f.Current()
				f.version()
				f.Write("p", "version=2.0.0 "+words)
				p := one(t, f.reload(Automatic), Refused)
				says(t, "refusal", p.Refused, want)
				says(t, "refusal of the plugin", f.Refusal("p"), want)
				f.unchanged(before, "1.0.0")
				starts := len(f.Programs.Started())
				if r := f.reload(Automatic); len(r.Plugins) != 0 || len(f.Programs.Started()) != starts {
					t.Errorf("an automatic reload tried it again: %+v", r)
				}
				one(t, f.reload(Options{}), Refused)
				f.unchanged(before, "1.0.0")
				f.Write("p", "version=3.0.0")
				one(t, f.reload(Automatic), Swapped)
				if v := f.version(); v != "3.0.0" || f.Refusal("p") != "" {
					t.Errorf("version %s, refusal %q", v, f.Refusal("p"))
				}
				if last := f.LastReload(); !last.OK || last.Applied != 1 || last.Refused != 2 {
					t.Errorf("%+v", last)
				}
				synctest.Wait()
			})
		})
	}
}

// TestAcceptedChanges checks who can accept a version that breaks its callers.
func TestAcceptedChanges(t *testing.T) {
	for name, tc := range map[string]struct {
		settings string
		opts     Options
		outcome  string
	}{
		"nobody":            {"", Options{}, Refused},
		"the caller":        {"", Options{AcceptChanges: true}, Swapped},
		"the configuration": {"reload {\n changes = \"any\"\n}\n", Options{}, Swapped},
	} {
		t.Run(name, func(t *testing.T) {
			f := begin(t, "version=1.0.0", "")
			f.Configure(f.Plugin("p", "") + tc.settings)
			f.reload(Options{})
			f.Write("p", "version=2.0.0 drop=echo")
			one(t, f.reload(tc.opts), tc.outcome)
			if dropped := f.Current().Registry.Find("echo") == nil; dropped != (tc.outcome == Swapped) {
				t.Errorf("the tool is gone: %t", dropped)
			}
		})
	}
}

// TestChangedRole checks that a new version whose tool has another role does not serve until somebody accepts it. Other
// calls would reach the tool, or the calls of agents by other names would fail.
func TestChangedRole(t *testing.T) {
	for old, now := range map[string]string{"": " role=read", " role=read": "", " role=search": " role=list"} {
		f := begin(t, "version=1.0.0 add=extra"+old, "")
		f.version()
		f.Write("p", "version=2.0.0 add=extra"+now)
		says(t, "refusal", one(t, f.reload(Options{}), Refused).Refused, "extra: the role changed from")
		if v := f.version(); v != "1.0.0" {
			t.Errorf("version %s serves", v)
		}
		one(t, f.reload(Options{AcceptChanges: true}), Swapped)
	}
}

// TestRestoredProgram checks that a refusal is forgotten once the program that serves is on the disk again.
func TestRestoredProgram(t *testing.T) {
	f := begin(t, "version=1.0.0", "")
	f.version()
	starts := len(f.Programs.Started())
	f.Write("p", "start=exit")
	one(t, f.reload(Options{}), Refused)
	f.Write("p", "version=1.0.0")
	if r := f.reload(Options{}); len(r.Plugins) != 0 || f.Refusal("p") != "" {
		t.Errorf("%+v, refusal %q", r, f.Refusal("p"))
	}
	if n := len(f.Programs.Started()); n != starts+1 {
		t.Errorf("%d programs were started", n-starts)
	}
}

// TestNamedPlugins checks that a reload of named plugins replaces them without a change, and reads no configuration.
func TestNamedPlugins(t *testing.T) {
	f := begin(t, "version=1.0.0", "")
	f.version()
	first := f.Programs.Running()[0]
	f.Configure("nonsense")
	one(t, f.reload(Options{Plugins: []string{"p"}}), Swapped)
	f.version()
	if now := f.Programs.Running(); len(now) == 0 || now[len(now)-1] == first {
		t.Error("the program was not replaced")
	}
	if _, err := f.Reload(t.Context(), Options{Plugins: []string{"q"}}); err == nil || f.ConfigRefusal() != "" {
		t.Errorf("%v", err)
	}
}

// TestProgramThatDies checks that the version that serves starts again after a crash, although another one was refused.
func TestProgramThatDies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := begin(t, "version=1.0.0", "")
		f.version()
		f.Write("p", "version=2.0.0 drop=echo")
		one(t, f.reload(Options{}), Refused)
		if res := f.call("die", "{}"); res.Error == nil || res.Error.Kind != tool.Unavailable {
			t.Errorf("%v", res.Error)
		}
		if res := f.call("where", "{}"); res.Error == nil {
			t.Error("the refused version serves after a crash")
		} else {
			says(t, "call", res.Error.Message, "breaks callers of its tools")
		}
		f.Write("p", "version=1.0.0")
		if v := f.version(); v != "1.0.0" {
			t.Errorf("version %s", v)
		}
		synctest.Wait()
	})
}

// TestChangeDuringAReload checks that a reload begins again if the files change, and that only the last version is
// published.
func TestChangeDuringAReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := begin(t, "version=1.0.0", "")
		f.version()
		f.Write("p", "version=2.0.0 gate=g")
		reports := make(chan *Report)
		go func() { reports <- f.reload(Options{}) }()
		<-f.Programs.Gate("g").Reached
		f.Write("p", "version=3.0.0")
		f.DiskChanged(func() { t.Error("another reload begins") })
		if p := one(t, <-reports, Swapped); p.From != "1.0.0" || p.To != "3.0.0" {
			t.Errorf("%+v", p)
		}
		synctest.Wait()
		if running := f.Programs.Running(); len(running) != 1 || running[0].Version() != "3.0.0" || f.published != 0 {
			t.Errorf("%d programs run, %d configurations were published", len(running), f.published)
		}
		begun := 0
		f.DiskChanged(func() { begun++ }) // it read the newest files
		f.Write("p", "version=4.0.0")
		f.DiskChanged(func() { begun++ })
		if begun != 1 {
			t.Errorf("%d reloads were begun", begun)
		}
	})
}

// TestChangeWithoutANotice checks that a reload notices that a program was replaced while it started.
func TestChangeWithoutANotice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := begin(t, "version=1.0.0", "")
		f.version()
		f.Write("p", "version=2.0.0 gate=g")
		reports := make(chan *Report)
		go func() { reports <- f.reload(Options{}) }()
		<-f.Programs.Gate("g").Reached
		f.Write("p", "version=3.0.0")
		f.Programs.Gate("g").Open()
		if p := one(t, <-reports, Swapped); p.To != "3.0.0" {
			t.Errorf("%+v", p)
		}
	})
}

// TestCanceledReload checks that nothing changes if the caller gives up, or if the host closes.
func TestCanceledReload(t *testing.T) {
	for name, closes := range map[string]bool{"the caller gives up": false, "the host closes": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := begin(t, "version=1.0.0", "")
				f.version()
				before := f.Current()
				f.Write("p", "version=2.0.0 gate=g")
				ctx, cancel := context.WithCancel(t.Context())
				errs := make(chan error)
				go func() {
					_, err := f.Reload(ctx, Options{})
					errs <- err
				}()
				<-f.Programs.Gate("g").Reached
				want := context.Canceled
				if closes {
					want = errClosing
					go f.Close()
				} else {
					cancel()
				}
				if err := <-errs; !errors.Is(err, want) {
					t.Errorf("%v", err)
				}
				cancel()
				synctest.Wait()
				f.unchanged(before, "1.0.0")
				if closes {
					if _, err := f.Reload(t.Context(), Options{}); !errors.Is(err, errClosing) {
						t.Errorf("a later reload: %v", err)
					}
					if _, err := f.Plan(t.Context()); !errors.Is(err, errClosing) {
						t.Errorf("a later plan: %v", err)
					}
				}
			})
		})
	}
}
