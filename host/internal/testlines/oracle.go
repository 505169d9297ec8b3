package testlines

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// answer is the answer to a request, or what must be answered.
type answer struct {
	id   string // "null" for an error without id; in what must be answered, "*" is any id
	code int    // 0 for a result; in what must be answered, 0 is any answer, and 1 any error
	also string // another id that the answer may have
}

// wanted is what must be answered to a line: single lines in any order, and at most one array.
type wanted struct {
	lines []answer
	array []answer
}

// oracle returns what a server must answer to a line. It follows section 4 to 6 of the specification of JSON-RPC 2.0,
// and the section "Messages" of the revision of MCP: ids are strings or numbers, params are objects, and only revisions
// before 2025-06-18 have batches. The oracle is independent of the server's code.
func oracle(revision string, line []byte) wanted {
	text := bytes.Trim(line, " \t\r")
	text = bytes.Trim(bytes.TrimPrefix(text, []byte("\ufeff")), " \t\r")
	if len(text) == 0 {
		return wanted{}
	}
	var value json.RawMessage
	switch err := json.Unmarshal(text, &value); {
	case err != nil && strings.Contains(err.Error(), "max depth"): // the kind of the message is unknown
		return wanted{lines: []answer{{"*", 1, ""}}}
	case err != nil:
		return wanted{lines: []answer{{"null", -32700, ""}}}
	}
	if text[0] != '[' {
		return wanted{lines: single(text)}
	}
	var elements []json.RawMessage
	must(json.Unmarshal(text, &elements))
	if revision >= "2025-06-18" || len(elements) == 0 {
		return wanted{lines: []answer{{"null", -32600, ""}}}
	}
	var out wanted
	for _, e := range elements {
		for _, a := range single(e) {
			if method(e) == "initialize" && a.code >= 0 {
				a.code = -32600
			}
			out.array = append(out.array, a)
		}
	}
	return out
}

func method(message []byte) (name string) {
	var m map[string]json.RawMessage
	if json.Unmarshal(message, &m) == nil && m["method"] != nil {
		_ = json.Unmarshal(m["method"], &name) // another value is no name
	}
	return name
}

// single returns what must be answered to a message that is no batch.
func single(text []byte) []answer {
	var m map[string]json.RawMessage
	if text[0] != '{' {
		return []answer{{"null", -32600, ""}}
	}
	must(json.Unmarshal(text, &m))
	id, valid := "null", false
	if raw := m["id"]; len(raw) > 0 && strings.IndexByte(`"-0123456789`, raw[0]) >= 0 && utf8.Valid(raw) {
		id, valid = idText(raw), true
	}
	var version, name string
	isVersion := json.Unmarshal(m["jsonrpc"], &version) == nil && version == "2.0"
	isMethod := m["method"] != nil && m["method"][0] == '"' && json.Unmarshal(m["method"], &name) == nil
	_, hasMethod := m["method"]
	_, hasID := m["id"]
	_, hasResult := m["result"]
	hasError := m["error"] != nil && string(m["error"]) != "null"
	params := m["params"]
	switch {
	case !hasMethod && (hasResult || hasError):
		return nil // a response
	case !isVersion || !isMethod:
		return []answer{{id, -32600, ""}}
	case !hasID:
		return nil // a notification
	case !utf8.Valid(text):
		return []answer{{id, -32700, ""}}
	case !valid:
		return []answer{{"null", -32600, ""}}
	case params != nil && params[0] == '[':
		return []answer{{id, -32602, ""}}
	case params != nil && params[0] != '{' && string(params) != "null":
		return []answer{{id, -32600, ""}}
	}
	return []answer{{id, 0, ""}}
}

// idText returns the same text for ids that are equal. The texts of numbers must be the same.
func idText(raw json.RawMessage) string {
	var s string
	if raw[0] != '"' || json.Unmarshal(raw, &s) != nil || strings.ContainsRune(s, '\ufffd') {
		return string(raw)
	}
	return strconv.Quote(s)
}

// parse returns the answers in a line of the server. A request or a notification has none.
func parse(line []byte) (answers []answer, array bool, err error) {
	if !utf8.Valid(line) || !json.Valid(line) {
		return nil, false, fmt.Errorf("the server wrote a line that is not JSON: %.300q", line)
	}
	elements := []json.RawMessage{line}
	if array = line[0] == '['; array {
		if err := json.Unmarshal(line, &elements); err != nil {
			return nil, false, err
		}
	}
	for _, e := range elements {
		var m struct {
			JSONRPC string
			Method  string
			ID      json.RawMessage
			Result  json.RawMessage
			Error   *struct {
				Code    *int
				Message string
			}
		}
		switch err := json.Unmarshal(e, &m); {
		case err != nil:
			return nil, false, err
		case m.JSONRPC != "2.0":
			return nil, false, fmt.Errorf("the server wrote a line that is no message: %.300q", line)
		case m.Method != "":
			continue
		case (m.Result != nil) == (m.Error != nil), m.Error != nil && (m.Error.Code == nil || m.Error.Message == ""),
			string(m.ID) == "":
			return nil, false, fmt.Errorf("the server wrote an answer that is not valid: %.300q", line)
		}
		a := answer{id: idText(m.ID)}
		if m.Error != nil {
			if a.code = *m.Error.Code; a.code == 0 {
				a.code = 1
			}
		}
		answers = append(answers, a)
	}
	return answers, array, nil
}

// repeated allows an error without id for each answer whose id an earlier one has, because the earlier request can
// still run.
func repeated(ids map[string]bool, answers []answer) {
	for i := range answers {
		a := &answers[i]
		if ids[a.id] && a.id != "null" {
			a.also = "null"
		}
		ids[a.id] = true
	}
}

// take removes an answer from those that are wanted. It returns false if the answer is not wanted.
func take(from *[]answer, got answer) bool {
	i := slices.IndexFunc(*from, func(w answer) bool { return w.id == got.id && fits(w, got) })
	if i < 0 {
		i = slices.IndexFunc(*from, func(w answer) bool { return w.id == "*" && fits(w, got) })
	}
	if i < 0 {
		i = slices.IndexFunc(*from, func(w answer) bool { return w.also == got.id && w.also != "" })
	}
	if i < 0 {
		return false
	}
	*from = slices.Delete(*from, i, i+1)
	return true
}

func fits(want, got answer) bool {
	switch want.code {
	case 0:
		return true
	case 1:
		return got.code != 0
	}
	return want.code == got.code
}

func must(err error) {
	if err != nil {
		panic(err) // the text was valid JSON
	}
}
