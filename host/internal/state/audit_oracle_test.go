//go:build !race

package state_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"toolhost.dev/host/internal/state"
)

func TestOracleAuditLogIsBounded(t *testing.T) {
	for name, tc := range map[string]struct {
		maxBytes int64
		maxAge   time.Duration
		atMost   int
	}{"size": {600_000, 0, 1100}, "age": {1 << 40, time.Hour, 1100}, "neither": {1 << 40, 0, 4000}, "less than stays": {1, time.Nanosecond, 1000}} {
		t.Run(name, func(t *testing.T) {
			db := audited(t, t.TempDir(), tc.maxBytes, tc.maxAge)
			for i := range 4000 {
				at := time.Now()
				if i < 2900 {
					at = at.Add(-2 * time.Hour)
				}
				db.AddAudit(state.AuditEntry{At: at, Call: fmt.Sprint(i), Arguments: []byte(strings.Repeat("x", 300))})
				if i%500 == 499 {
					if err := db.Flush(); err != nil && !strings.Contains(err.Error(), "under way") {
						t.Fatal(err)
					}
				}
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			db = audited(t, filepath.Dir(db.Path()), 0, 0)
			got, err := db.AuditLog(state.AuditQuery{})
			if err != nil {
				t.Fatal(err)
			}
			// The log is pruned after every 500 entries, so it can exceed the limit by 500 entries.
			if len(got) > tc.atMost+500 || len(got) < 1000 || got[len(got)-1].Call != "3999" {
				t.Errorf("%d entries, the last %+v", len(got), got[len(got)-1])
			}
			if name == "neither" && len(got) != 4000 {
				t.Errorf("%d entries", len(got))
			}
		})
	}
}
