package records

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"toolhost.dev/sdk/tool"
)

// Sum is the hash of the tool definitions of one plugin.
type Sum [sha256.Size]byte

// Definitions holds hashes of a plugin's approved and reported tool definitions.
type Definitions struct {
	// Approved is the hash of the definitions that the operator approved. Reported is the hash of the definitions in
	// the last notification to the operator.
	Approved, Reported Sum
	// Since is the time when the operator was notified.
	Since time.Time
}

// SumOf returns the hash of tool definitions and their JSON text. The order of the definitions does not matter.
func SumOf(tools []tool.Definition) (sum Sum, text []byte, err error) {
	sorted := slices.SortedFunc(slices.Values(tools), func(a, b tool.Definition) int {
		return strings.Compare(a.Name, b.Name)
	})
	for i := range sorted { // invalid JSON is encoded as a string
		// Ignore these fields, because they only serve searches and comparisons. Otherwise definitions that were
		// approved before a host recorded these fields would no longer count as approved.
		sorted[i].OriginalName, sorted[i].Varying, sorted[i].Unordered, sorted[i].Keywords = "", nil, nil, nil
		for _, schema := range []*json.RawMessage{&sorted[i].Input, &sorted[i].Output} {
			if len(*schema) > 0 && !json.Valid(*schema) {
				if *schema, err = json.Marshal(string(*schema)); err != nil {
					return sum, nil, err
				}
			}
		}
	}
	text, err = json.Marshal(sorted)
	return sha256.Sum256(text), text, err
}

// Definitions returns the known tool definitions for a configuration by plugin name.
func (l *Log) Definitions(config string) (map[string]Definitions, error) {
	rows, err := l.sql.Query(`SELECT plugin, approved_sum, reported_sum, since_ns FROM definitions INDEXED BY definitions_sums WHERE config = ?`, config)
	if err != nil {
		return nil, err
	}
	defer rows.Close() //nolint:errcheck // rows.Err tells
	out := make(map[string]Definitions)
	for rows.Next() {
		var plugin string
		var approved, reported []byte
		var since int64
		if err := rows.Scan(&plugin, &approved, &reported, &since); err != nil {
			return nil, err
		}
		def := Definitions{Since: time.Unix(0, since)}
		copy(def.Approved[:], approved)
		copy(def.Reported[:], reported)
		out[plugin] = def
	}
	return out, rows.Err()
}

// ApprovedTools returns the tool definitions of a plugin that the operator approved.
func (l *Log) ApprovedTools(config, plugin string) (tools []tool.Definition, err error) {
	var text string
	err = l.sql.QueryRow(`SELECT approved FROM definitions WHERE config = ? AND plugin = ?`, config, plugin).Scan(&text)
	if err != nil {
		return nil, err
	}
	return tools, json.Unmarshal([]byte(text), &tools)
}

// Approve saves definitions as approved. If the argument "first" is true, Approve does nothing for a plugin that
// already has approved definitions.
func (l *Log) Approve(config, plugin string, tools []tool.Definition, first bool) error {
	sum, text, err := SumOf(tools)
	if err != nil {
		return err
	}
	or := "OR REPLACE"
	if first {
		or = "OR IGNORE"
	}
	_, err = l.sql.Exec(`INSERT `+or+` INTO definitions (config, plugin, approved, approved_sum, reported_sum, since_ns) VALUES (?, ?, ?, ?, ?, ?)`,
		config, plugin, string(text), sum[:], sum[:], time.Now().UnixNano())
	return err
}

// Reported records that the operator was notified of definitions. The result "told" is false if another host recorded
// the same definitions earlier.
func (l *Log) Reported(config, plugin string, sum Sum) (told bool, err error) {
	res, err := l.sql.Exec(`UPDATE definitions SET reported_sum = ?3, since_ns = ?4 WHERE config = ?1 AND plugin = ?2 AND reported_sum <> ?3`, config, plugin, sum[:], time.Now().UnixNano())
	if err != nil {
		return true, errors.Join(errors.New("cannot save the reported definitions"), err)
	}
	n, err := res.RowsAffected()
	return n > 0, err
}
