package principal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// issuer is an authorization server that renews tokens. Each refresh token is valid once.
type issuer struct {
	*httptest.Server
	renewed atomic.Int64
	status  atomic.Int64 // status of all answers; 0 means that the issuer works
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	i := new(issuer)
	i.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		want := fmt.Sprint("refresh-", i.renewed.Load())
		switch status := int(i.status.Load()); {
		case status != 0:
			w.WriteHeader(status)
			fmt.Fprint(w, `{"error":"temporarily\u001b[31m_unavailable"}`)
		case r.FormValue("refresh_token") != want:
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"error":"invalid_grant"}`)
		default:
			n := i.renewed.Add(1)
			fmt.Fprintf(w, `{"access_token":"access-%d","token_type":"Bearer","expires_in":3600,"refresh_token":"refresh-%d"}`, n, n)
		}
	}))
	t.Cleanup(i.Close)
	return i
}

const resource = "http://127.0.0.1:1/mcp"

// stored returns a store with a login whose access token expires after the given time.
func stored(t *testing.T, i *issuer, left time.Duration) *Logins {
	t.Helper()
	s := OpenLogins(t.TempDir())
	l := &Login{Resource: resource, ClientID: "c", TokenURL: i.URL, Access: "access-0", Refresh: "refresh-0", Obtained: time.Now().Add(left - time.Hour), Expiry: time.Now().Add(left)}
	if err := s.Save(l); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestFresh checks when a token is renewed, and that concurrent processes renew it only once.
func TestFresh(t *testing.T) {
	i := newIssuer(t)
	s := stored(t, i, 30*time.Minute)
	if l, err := s.Fresh(t.Context(), resource); err != nil || l.Access != "access-0" {
		t.Errorf("%+v %v", l, err)
	}
	s = stored(t, i, -time.Second)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			other := &Logins{dir: s.dir, now: time.Now}
			if l, err := other.Fresh(t.Context(), resource); err != nil || l.Access != "access-1" {
				t.Errorf("%+v %v", l, err)
			}
		})
	}
	all.Wait()
	if n := i.renewed.Load(); n != 1 {
		t.Errorf("renewed %d times", n)
	}
	if l, err := s.Fresh(t.Context(), "http://127.0.0.1:2/mcp"); l != nil || err != nil {
		t.Errorf("another server: %+v %v", l, err)
	}
}

// TestFreshFails checks what happens if a token cannot be renewed.
func TestFreshFails(t *testing.T) {
	i := newIssuer(t)
	i.status.Store(http.StatusServiceUnavailable)
	if l, err := stored(t, i, time.Minute).Fresh(t.Context(), resource); err != nil || l.Access != "access-0" {
		t.Errorf("the issuer is away and the token is still valid: %+v %v", l, err)
	}
	s := stored(t, i, -time.Minute)
	if l, err := s.Fresh(t.Context(), resource); err == nil || l != nil || errors.Is(err, ErrEnded) {
		t.Errorf("the issuer is away and the token has expired: %+v %v", l, err)
	}
	i.status.Store(http.StatusBadRequest)
	if _, err := s.Fresh(t.Context(), resource); !errors.Is(err, ErrEnded) || strings.ContainsRune(err.Error(), 27) {
		t.Errorf("the issuer refuses: %q", err)
	}
	i.status.Store(0)
	if l, err := s.Fresh(t.Context(), resource); err != nil || l.Access != "access-1" {
		t.Errorf("the issuer is back: %+v %v", l, err)
	}
}

// TestClient checks that a public server cannot lead the client to addresses inside of the operator's network.
func TestClient(t *testing.T) {
	web := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the client connected") }))
	defer web.Close()
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	defer plain.Close()
	get := func(resource, url string) error {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := LoginClient(resource).Do(req)
		if err == nil {
			err = res.Body.Close()
		}
		return err
	}
	for url, want := range map[string]string{web.URL: "is not public", plain.URL: "not an https URL", strings.Replace(web.URL, "127.0.0.1", "localhost", 1): "is not public"} {
		if err := get("https://tools.example/mcp", url); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", url, err)
		}
	}
	for _, inside := range []string{"http://127.0.0.1:1/mcp", "http://localhost/mcp", "http://10.0.0.1/mcp", "http://[::1]/"} {
		if err := get(inside, plain.URL); err != nil {
			t.Errorf("%s: %v", inside, err)
		}
	}
}

// TestKeeper checks that a plugin receives each new access token, but no refresh token. A logout must remove the token.
func TestKeeper(t *testing.T) {
	i := newIssuer(t)
	s := stored(t, i, -time.Second)
	k := NewLoginKeeper(s, nil, slog.New(slog.DiscardHandler))
	defer k.Close()
	dir := t.TempDir()
	token := func() string {
		k.Deliver(t.Context(), resource, dir)
		b, _ := os.ReadFile(filepath.Join(dir, TokenFile(resource))) // a missing file means no token
		return string(b)
	}
	if got := token(); got != "access-1" {
		t.Errorf("%q", got)
	}
	k.Deliver(t.Context(), resource+"/other", dir) // this server has no login, and must not affect the first server
	// Remove the tokens, as another host does; the next start must deliver the token again.
	ClearLogins(dir)
	if got := token(); got != "access-1" {
		t.Errorf("%q", got)
	}
	l, err := s.Load(resource)
	if err != nil {
		t.Fatal(err)
	}
	l.Access = "another"
	if err := s.Save(l); err != nil {
		t.Fatal(err)
	}
	if got := token(); got != "another" {
		t.Errorf("%q", got)
	}
	if ok, err := s.Remove(resource); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if got := token(); got != "" {
		t.Errorf("after the logout: %q", got)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 0 {
		t.Errorf("%v %v", entries, err)
	}
}

// TestAppearedAgain checks that a token whose first use failed is used again, at growing intervals.
func TestAppearedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := OpenLogins(t.TempDir())
		began := time.Now()
		var calls []time.Duration
		k := NewLoginKeeper(s, func(context.Context) bool {
			calls = append(calls, time.Since(began))
			return len(calls) == 4
		}, slog.New(slog.DiscardHandler))
		defer k.Close()
		k.Deliver(t.Context(), resource, t.TempDir())
		time.Sleep(time.Minute)
		if err := s.Save(&Login{Resource: resource, Access: "token", Expiry: began.Add(24 * time.Hour), Obtained: time.Now()}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if want := []time.Duration{65 * time.Second, 75 * time.Second, 95 * time.Second, 135 * time.Second}; !slices.Equal(calls, want) {
			t.Errorf("%v, want %v", calls, want)
		}
	})
}

// TestKeeperWaits checks that the keeper does not send a request to the issuer at each check if the login has ended.
func TestKeeperWaits(t *testing.T) {
	i := newIssuer(t)
	i.status.Store(http.StatusBadRequest)
	var asked atomic.Int64
	count := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		i.Config.Handler.ServeHTTP(w, r)
	}))
	defer count.Close()
	s := stored(t, i, -time.Second)
	l, err := s.Load(resource)
	if err != nil {
		t.Fatal(err)
	}
	l.TokenURL, l.AuthStyle = count.URL, 1 // with a fixed style, a renewal is one request
	if err := s.Save(l); err != nil {
		t.Fatal(err)
	}
	k := NewLoginKeeper(s, nil, slog.New(slog.DiscardHandler))
	defer k.Close()
	dir := t.TempDir()
	for range 5 {
		k.Deliver(t.Context(), resource, dir)
		k.Deliver(t.Context(), resource, t.TempDir())
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("%d requests", n)
	}
	i.status.Store(0)
	l.Obtained = l.Obtained.Add(time.Second) // simulate another login
	if err := s.Save(l); err != nil {
		t.Fatal(err)
	}
	k.Deliver(t.Context(), resource, dir)
	if b, err := os.ReadFile(filepath.Join(dir, TokenFile(resource))); err != nil || string(b) != "access-1" {
		t.Errorf("%q %v", b, err)
	}
}
