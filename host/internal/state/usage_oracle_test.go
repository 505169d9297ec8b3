//go:build !race

package state

import (
	"fmt"
	"log/slog"
	"testing"
	"time"
)

// TestOracleLearnedWordsAreBounded checks an owner with too many words. The words with the smallest weights must be
// deleted, but no words of other owners.
func TestOracleLearnedWordsAreBounded(t *testing.T) {
	db, err := OpenInMemory(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	now := time.Unix(1_000_000_000, 0)
	alice, bob := UsageScope{"/w", "alice"}, UsageScope{"/w", "bob"}
	learn := func(s UsageScope, tool string, words []string, at time.Time) {
		t.Helper()
		if err := db.LearnWords(s, tool, words, at); err != nil {
			t.Fatal(err)
		}
	}
	weight := func(s UsageScope, word string, at time.Time) (out float64) {
		t.Helper()
		all, err := db.LearnedWords(s, []string{word, "absent"}, at)
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range all {
			out += w.Weight
		}
		return out
	}
	learn(bob, "x", []string{"old"}, now)
	for range 20 {
		learn(alice, "x", []string{"often"}, now)
	}
	if got := weight(alice, "often", now); got != maxWordWeight {
		t.Errorf("20 calls weigh %v", got)
	}
	if got := weight(alice, "often", now.Add(WordHalfLife)); got < maxWordWeight/2-0.01 || got > maxWordWeight/2+0.01 {
		t.Errorf("after the half-life %v", got)
	}
	learn(alice, "x", []string{"old"}, now)
	now = now.Add(WordHalfLife)
	fill := func(workspace string, rows int) {
		t.Helper()
		if _, err := db.sql.Exec(`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
			INSERT INTO tool_words (workspace, principal, word, tool, weight, at_ns) SELECT ?2, 'alice', 'w' || i, 'y', 1, ?3 FROM n`, rows, workspace, now.UnixNano()); err != nil {
			t.Fatal(err)
		}
	}
	fill("/w", maxWords-1)
	learn(alice, "y", []string{"new"}, now)
	var n int
	if err := db.sql.QueryRow(`SELECT count(*) FROM tool_words WHERE principal = 'alice'`).Scan(&n); err != nil || n > maxWords {
		t.Errorf("%d rows, %v", n, err)
	}
	if weight(alice, "often", now) == 0 || weight(alice, "old", now) != 0 || weight(bob, "old", now) == 0 {
		t.Error("the wrong words were deleted")
	}
	fill("/many", maxAllWords)
	learn(bob, "y", []string{"new"}, now)
	if err := db.sql.QueryRow(`SELECT count(*) FROM tool_words`).Scan(&n); err != nil || n > maxAllWords {
		t.Errorf("%d rows of all, %v", n, err)
	}
	for i := range 3 {
		if err := db.AddSearch(alice, fmt.Sprint("s", i), []string{"w"}, now.Add(time.Duration(i)*SearchWindow)); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.sql.QueryRow(`SELECT count(*) FROM searches`).Scan(&n); err != nil || n != 2 {
		t.Errorf("%d searches are kept, %v", n, err)
	}
}
