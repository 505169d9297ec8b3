package state

import (
	"context"
	"encoding/json"
	"errors"
	"time"
)

// These constants limit the data that is kept about searches for tools.
const (
	// SearchWindow is the period after a search. A call of a tool in this period counts as a result of the search.
	SearchWindow = 2 * time.Minute
	// WordHalfLife is the time in which the weight of a word falls to a half.
	WordHalfLife = 14 * 24 * time.Hour

	maxWordWeight = 8
	maxWords      = 2000   // maximum number of rows of a principal in a workspace
	maxAllWords   = 50_000 // maximum number of all rows
)

// UsageScope is the principal and the workspace to which learned words belong. The words of one scope have no effect on
// other scopes.
type UsageScope struct{ Workspace, Principal string }

// LearnedWord is a word of a search after which a tool was called.
type LearnedWord struct {
	Word, Tool string
	// Weight is approximately the number of calls. Older calls count less.
	Weight float64
}

// decayed is the SQL expression for the weight of a row at the time ?1 in nanoseconds.
const decayed = `weight * pow(0.5, max(0, ?1 - at_ns) / 1209600e9)` // WordHalfLife

// wordLimits contains the limits on the number of rows. The statement "trim" deletes a number of rows with the smallest
// weights.
var wordLimits = []struct {
	rows        int
	count, trim string
}{
	{maxWords, `SELECT count(*) FROM tool_words WHERE workspace = ?1 AND principal = ?2`, trimStart + ` WHERE workspace = ?2 AND principal = ?3 ` + trimEnd},
	{maxAllWords, `SELECT count(*) FROM tool_words WHERE ?1 = ?1 AND ?2 = ?2`, trimStart + ` WHERE ?2 = ?2 AND ?3 = ?3 ` + trimEnd},
}

const (
	trimStart = `DELETE FROM tool_words WHERE (workspace, principal, word, tool) IN (SELECT workspace, principal, word, tool FROM tool_words`
	trimEnd   = `ORDER BY ` + decayed + ` LIMIT ?4)`
)

// AddSearch records the words of a search in a session. It deletes searches that are older than SearchWindow.
func (d *DB) AddSearch(s UsageScope, session string, words []string, at time.Time) error {
	text, err := json.Marshal(words)
	if err != nil {
		return err
	}
	_, err = d.sql.Exec(`DELETE FROM searches WHERE at_ns < ?1`, at.Add(-SearchWindow).UnixNano())
	if err == nil {
		_, err = d.sql.Exec(`INSERT OR REPLACE INTO searches (workspace, principal, session, at_ns, words) VALUES (?, ?, ?, ?, ?)`,
			s.Workspace, s.Principal, session, at.UnixNano(), string(text))
	}
	return err
}

// RecentSearch is a search in a session.
type RecentSearch struct {
	At    time.Time
	Words []string
}

// Searches returns the searches in a session since a time, the oldest first.
func (d *DB) Searches(s UsageScope, session string, since time.Time) (out []RecentSearch, err error) {
	rows, err := d.sql.Query(`SELECT at_ns, words FROM searches WHERE workspace = ? AND principal = ? AND session = ? AND at_ns >= ? ORDER BY at_ns`,
		s.Workspace, s.Principal, session, since.UnixNano())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var at int64
		var text string
		if err := rows.Scan(&at, &text); err != nil {
			return nil, err
		}
		var words []string
		if json.Unmarshal([]byte(text), &words) == nil {
			out = append(out, RecentSearch{time.Unix(0, at), words})
		}
	}
	return out, rows.Err()
}

// LearnWords increases the weights of words for a tool. If there are too many rows, it deletes those with the smallest
// weights.
func (d *DB) LearnWords(s UsageScope, tool string, words []string, at time.Time) (err error) {
	tx, err := d.sql.BeginTx(context.Background(), nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // after Commit it does nothing
	for _, w := range words {
		if _, err := tx.Exec(`INSERT INTO tool_words (workspace, principal, word, tool, weight, at_ns) VALUES (?2, ?3, ?4, ?5, 1, ?1)
			ON CONFLICT DO UPDATE SET weight = min(?6, `+decayed+` + 1), at_ns = ?1`, at.UnixNano(), s.Workspace, s.Principal, w, tool, maxWordWeight); err != nil {
			return err
		}
	}
	for _, limit := range wordLimits {
		var n int
		if err := tx.QueryRow(limit.count, s.Workspace, s.Principal).Scan(&n); err != nil {
			return err
		}
		if n <= limit.rows {
			continue
		}
		if _, err := tx.Exec(limit.trim, at.UnixNano(), s.Workspace, s.Principal, n-limit.rows+limit.rows/10); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// LearnedWords returns the learned pairs of a given word and a tool, with their weights at the given time.
func (d *DB) LearnedWords(s UsageScope, words []string, at time.Time) (_ []LearnedWord, err error) {
	if len(words) == 0 {
		return nil, nil
	}
	list, err := json.Marshal(words)
	if err != nil {
		return nil, err
	}
	rows, err := d.sql.Query(`SELECT word, tool, `+decayed+` FROM tool_words WHERE workspace = ?2 AND principal = ?3 AND word IN (SELECT value FROM json_each(?4))`,
		at.UnixNano(), s.Workspace, s.Principal, string(list))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	var out []LearnedWord
	for rows.Next() {
		var w LearnedWord
		if err := rows.Scan(&w.Word, &w.Tool, &w.Weight); err != nil {
			return nil, err
		}
		out = append(out, w)
	}
	return out, rows.Err()
}

// ForgetWords deletes the learned data about the given words in a workspace, for all principals. Nil means all words.
// It returns the number of deleted pairs of a word and a tool.
func (d *DB) ForgetWords(workspace string, words []string) (n int64, err error) {
	if words == nil {
		if _, err := d.sql.Exec(`DELETE FROM searches WHERE workspace = ?`, workspace); err != nil {
			return 0, err
		}
		res, err := d.sql.Exec(`DELETE FROM tool_words WHERE workspace = ?`, workspace)
		if err != nil {
			return 0, err
		}
		return res.RowsAffected()
	}
	for _, w := range words {
		res, err := d.sql.Exec(`DELETE FROM tool_words WHERE workspace = ? AND word = ?`, workspace, w)
		if err != nil {
			return n, err
		}
		deleted, err := res.RowsAffected()
		if n += deleted; err != nil {
			return n, err
		}
	}
	return n, nil
}
