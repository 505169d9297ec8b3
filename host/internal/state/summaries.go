package state

import (
	"encoding/json"
	"strings"
)

// maxSummary limits the length of a summary in characters.
const maxSummary = 200

// Summaries returns the summaries in the states of a session's plugins by the name of the plugin. A state has a summary if it
// is a JSON object in which the member "summary" is a string that is not empty. A summary has one line of limited length, and
// secrets in it are masked.
func (d *DB) Summaries(session string) (map[string]string, error) {
	unsaved := d.unsaved() // before the query: what is saved meanwhile is in the database
	states := make(map[string][]byte)
	rows, err := d.sql.Query(`SELECT plugin, state FROM plugin_states WHERE session = ? AND substr(CAST(state AS BLOB), 1, 1) = x'7B'`, session)
	if err != nil {
		return nil, err
	}
	defer rows.Close() //nolint:errcheck // rows.Err tells
	for rows.Next() {
		var plugin string
		var state []byte
		if err := rows.Scan(&plugin, &state); err != nil {
			return nil, err
		}
		states[plugin] = state
	}
	for k, state := range unsaved.pluginStates {
		if k.session == session {
			states[k.name] = state
		}
	}
	var out map[string]string
	for plugin, state := range states {
		var s struct {
			Summary string `json:"summary"`
		}
		if json.Unmarshal(state, &s) != nil {
			continue
		}
		if text := d.MaskCommand(strings.Join(strings.Fields(s.Summary), " ")); text != "" {
			if r := []rune(text); len(r) > maxSummary {
				text = string(r[:maxSummary-1]) + "…"
			}
			put(&out, plugin, text)
		}
	}
	return out, rows.Err()
}
