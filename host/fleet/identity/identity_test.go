package identity_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"toolhost.dev/host/fleet/identity"
)

// node creates a node that belongs to the fleet of an authority.
func node(t *testing.T, a *identity.Authority, name string) *identity.Identity {
	t.Helper()
	dir := t.TempDir()
	public, err := identity.NewKey(dir)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := a.Sign(name, public)
	if err != nil {
		t.Fatal(err)
	}
	if err := identity.Save(dir, cert, a.Certificate()); err != nil {
		t.Fatal(err)
	}
	id, err := identity.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func authority(t *testing.T) *identity.Authority {
	t.Helper()
	a, err := identity.CreateAuthority(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestStatements(t *testing.T) {
	fleet := authority(t)
	one, two := node(t, fleet, "one"), node(t, fleet, "two")
	stranger := node(t, authority(t), "one")
	now := time.Now()
	said := identity.Statement{Principal: []byte(`{"name":"alice"}`), Session: "s", Call: "c"}
	text, signature, err := one.Sign(said, now)
	if err != nil {
		t.Fatal(err)
	}
	if s, err := two.Verify("one", one.Certificate(), text, signature, now); err != nil || s.Call != "c" || s.Node != "one" {
		t.Errorf("%+v %v", s, err)
	}
	changed := append([]byte{}, text...)
	changed[len(changed)/2]++
	foreign, foreignSignature, err := stranger.Sign(said, now)
	if err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"a changed text":            second(two.Verify("one", one.Certificate(), changed, signature, now)),
		"another node":              second(two.Verify("two", one.Certificate(), text, signature, now)),
		"another certificate":       second(two.Verify("one", two.Certificate(), text, signature, now)),
		"a foreign certificate":     second(two.Verify("one", stranger.Certificate(), foreign, foreignSignature, now)),
		"a statement from long ago": second(two.Verify("one", one.Certificate(), text, signature, now.Add(time.Hour))),
		"a statement of the future": second(two.Verify("one", one.Certificate(), text, signature, now.Add(-time.Hour))),
		"an empty signature":        second(two.Verify("one", one.Certificate(), text, nil, now)),
		"a damaged certificate":     second(two.Verify("one", []byte("x"), text, signature, now)),
		"a statement of another":    second(two.Verify("two", two.Certificate(), text, signature, now)),
	} {
		if err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

func second(_ *identity.Statement, err error) error { return err }

// TestSessionStatements checks that the signed statement about a session is reused while it is valid, and that a
// changed or expired statement is refused.
func TestSessionStatements(t *testing.T) {
	fleet := authority(t)
	one, two := node(t, fleet, "one"), node(t, fleet, "two")
	now := time.Now()
	sign := func(principal, session string, at time.Time) (text, signature []byte) {
		t.Helper()
		text, signature, err := one.SignSession([]byte(principal), session, at)
		if err != nil {
			t.Fatal(err)
		}
		return text, signature
	}
	text, signature := sign(`{"name":"alice"}`, "s", now)
	for range 2 {
		if s, err := two.Verify("one", one.Certificate(), text, signature, now); err != nil || s.Call != "" || s.Digest != nil || s.Session != "s" {
			t.Fatalf("%+v %v", s, err)
		}
	}
	if again, _ := sign(`{"name":"alice"}`, "s", now.Add(20*time.Second)); string(again) != string(text) {
		t.Error("a statement that is valid is made again")
	}
	for name, other := range map[string][]byte{
		"another principal": first(sign(`{"name":"bob"}`, "s", now)), "another session": first(sign(`{"name":"alice"}`, "t", now)),
		"half of the life later": first(sign(`{"name":"alice"}`, "s", now.Add(31*time.Second))), "a clock that went back": first(sign(`{"name":"alice"}`, "s", now.Add(-time.Hour))),
	} {
		if string(other) == string(text) {
			t.Errorf("%s has the same statement", name)
		}
	}
	for name, err := range map[string]error{
		"long ago":            second(two.Verify("one", one.Certificate(), text, signature, now.Add(time.Hour))),
		"a changed text":      second(two.Verify("one", one.Certificate(), append([]byte(" "), text...), signature, now)),
		"a changed signature": second(two.Verify("one", one.Certificate(), text, append([]byte{signature[0] + 1}, signature[1:]...), now)),
		"another node":        second(two.Verify("two", two.Certificate(), text, signature, now)),
	} {
		if err == nil {
			t.Errorf("after the statement was accepted once: %s is accepted", name)
		}
	}
}

func first(text, _ []byte) []byte { return text }

func TestTokensAreUsedOnce(t *testing.T) {
	dir := t.TempDir()
	a := authority(t)
	tokens := identity.OpenTokens(dir)
	token, err := tokens.New(a)
	if err != nil {
		t.Fatal(err)
	}
	secret, _, err := identity.ParseToken(token + "\n")
	if err != nil {
		t.Fatal(err)
	}
	if err := tokens.Use("other"); !errors.Is(err, identity.ErrToken) {
		t.Errorf("a wrong token: %v", err)
	}
	if err := identity.OpenTokens(dir).Use(secret); err != nil {
		t.Error(err)
	}
	if err := tokens.Use(secret); !errors.Is(err, identity.ErrToken) {
		t.Errorf("a token was used twice: %v", err)
	}
	for _, bad := range []string{"", "x", "thfleet1.", "thfleet1.AA.b", token[:20]} {
		if _, _, err := identity.ParseToken(bad); err == nil {
			t.Errorf("%q is a token", bad)
		}
	}
}

// newToken makes a token, and returns its secret.
func newToken(t *testing.T, dir string, a *identity.Authority) string {
	t.Helper()
	token, err := identity.OpenTokens(dir).New(a)
	if err != nil {
		t.Fatal(err)
	}
	secret, _, err := identity.ParseToken(token)
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

// TestTokenIsUsedOnceAtTheSameTime checks that only one of many nodes that use a token at the same time gets it. Each
// use has a value of its own, as in different requests and processes. Tokens that are made meanwhile must not bring a
// used token back, and must not be lost themselves.
func TestTokenIsUsedOnceAtTheSameTime(t *testing.T) {
	dir, a := t.TempDir(), authority(t)
	for range 10 {
		secret := newToken(t, dir, a)
		var used atomic.Int32
		var mu sync.Mutex
		var others []string
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				switch err := identity.OpenTokens(dir).Use(secret); {
				case err == nil:
					used.Add(1)
				case !errors.Is(err, identity.ErrToken):
					t.Error(err)
				}
			})
			all.Go(func() {
				other := newToken(t, dir, a)
				mu.Lock()
				defer mu.Unlock()
				others = append(others, other)
			})
		}
		all.Wait()
		if n := used.Load(); n != 1 {
			t.Errorf("%d nodes used one token at the same time", n)
		}
		if err := identity.OpenTokens(dir).Use(secret); !errors.Is(err, identity.ErrToken) {
			t.Errorf("a used token came back: %v", err)
		}
		for _, other := range others {
			if err := identity.OpenTokens(dir).Use(other); err != nil {
				t.Errorf("a token that was made meanwhile: %v", err)
			}
		}
	}
}

// TestOldTokensAreRefused checks that a token is refused after 15 minutes.
func TestOldTokensAreRefused(t *testing.T) {
	dir, a := t.TempDir(), authority(t)
	file := filepath.Join(dir, "tokens.json")
	for left, want := range map[time.Duration]error{-time.Second: identity.ErrToken, time.Hour: nil} {
		secret := newToken(t, dir, a)
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var all []map[string]any
		if err := json.Unmarshal(b, &all); err != nil || len(all) != 1 {
			t.Fatal(string(b), err)
		}
		expires, err := time.Parse(time.RFC3339, all[0]["expires"].(string))
		if life := time.Until(expires); err != nil || life > identity.TokenLife {
			t.Errorf("the token is valid for %s: %v", life, err)
		}
		all[0]["expires"] = time.Now().Add(left)
		if b, err = json.Marshal(all); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := identity.OpenTokens(dir).Use(secret); !errors.Is(err, want) {
			t.Errorf("%s before its end: %v", left, err)
		}
	}
}
