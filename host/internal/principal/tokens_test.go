package principal

import (
	"os"
	"strings"
	"testing"
	"time"
)

func store(t *testing.T, now *time.Time) *Tokens {
	t.Helper()
	s := OpenTokens(t.TempDir())
	s.now = func() time.Time { return *now }
	return s
}

func create(t *testing.T, s *Tokens, lifetime time.Duration) string {
	t.Helper()
	secret, _, err := s.Create("ci", lifetime, &StoredGrant{Rights: []string{"call"}})
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

// TestClock checks that no change of the clock makes an expired token valid again. This must also hold after a restart.
func TestClock(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	s := store(t, &now)
	used, unused, lasting := create(t, s, time.Hour), create(t, s, time.Hour), create(t, s, 0)
	now = now.Add(59 * time.Minute)
	if _, err := s.find(used); err != nil {
		t.Fatal(err)
	}
	now = now.Add(time.Minute)
	if _, err := s.find(used); err == nil || !strings.Contains(err.Error(), "toolhost token create ci") {
		t.Errorf("an expired token is valid: %v", err)
	}
	for _, back := range []time.Duration{time.Second, time.Hour, 24 * 365 * time.Hour} {
		past := now.Add(-back)
		again := OpenTokens(s.dir)
		again.now = func() time.Time { return past }
		for _, secret := range []string{used, unused} {
			if _, err := again.find(secret); err == nil {
				t.Errorf("the clock went back by %s, and the token is valid again", back)
			}
		}
		if _, err := again.find(lasting); err != nil {
			t.Error(err)
		}
		if all, err := again.All(); err != nil || !all[0].Expired || !all[1].Expired || all[2].Expired {
			t.Errorf("%+v %v", all, err)
		}
	}
}

// TestClockOfOthers checks that the use of one token records the time. Another token that has expired by then must stay
// invalid, although it was never used.
func TestClockOfOthers(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	s := store(t, &now)
	unused, lasting := create(t, s, time.Hour), create(t, s, 0)
	now = now.Add(2 * time.Hour)
	if _, err := s.find(lasting); err != nil {
		t.Fatal(err)
	}
	past := now.Add(-90 * time.Minute)
	again := OpenTokens(s.dir)
	again.now = func() time.Time { return past }
	if _, err := again.find(unused); err == nil {
		t.Error("an expired token is valid")
	}
}

// TestClockAfterCreation checks that an expired token remains invalid when the clock is set back. The store knows the
// later time only because another token was created then.
func TestClockAfterCreation(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	s := store(t, &now)
	expired := create(t, s, time.Hour)
	now = now.Add(2 * time.Hour)
	create(t, s, 0)
	now = now.Add(-2 * time.Hour)
	if _, err := s.find(expired); err == nil {
		t.Error("the clock went back, and the token is valid again")
	}
}

func TestBrokenStore(t *testing.T) {
	now := time.Now()
	s := store(t, &now)
	secret := create(t, s, 0)
	good, err := os.ReadFile(s.Path())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		text string
		mode os.FileMode
		want string
	}{
		{"", 0o600, "no token is valid"},
		{string(good[:len(good)/2]), 0o600, "no token is valid"},
		{strings.Replace(string(good), `"version": 1`, `"version": 9`, 1), 0o600, "version 9"},
		{strings.Replace(string(good), `"version": 1`, `"x": 1`, 1), 0o600, "unknown field"},
		{string(good), 0o666, "lets other users write"},
	} {
		if err := os.WriteFile(s.Path(), []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(s.Path(), c.mode); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenTokens(s.dir).find(secret); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.30q: %v, want %q", c.text, err, c.want)
		}
		if _, _, err := s.Create("x", 0, nil); err == nil {
			t.Errorf("%.30q: the store was replaced", c.text)
		}
	}
	if err := os.Remove(s.Path()); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/zero", s.Path()); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenTokens(s.dir).find(secret); err == nil {
		t.Error("a link is followed")
	}
}

// TestChanges checks that a store immediately sees the changes of other processes.
func TestChanges(t *testing.T) {
	now := time.Now()
	s := store(t, &now)
	other := OpenTokens(s.dir)
	secret := create(t, s, 0)
	if _, err := other.find(secret); err != nil {
		t.Error(err)
	}
	if revoked, err := s.Revoke("ci"); err != nil || len(revoked) != 1 {
		t.Errorf("%+v %v", revoked, err)
	}
	if _, err := other.find(secret); err == nil {
		t.Error("a revoked token is valid")
	}
}
