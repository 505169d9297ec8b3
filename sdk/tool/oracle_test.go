//go:build !race

package tool_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"toolhost.dev/sdk/tool"
)

// refused matches schemas that ParseSchema can refuse: their references depend on the value, or lead to other
// documents, or their defaults are invalid.
var refused = regexp.MustCompile(`"\$dynamicRef"|"\$ref": "[^#]|"\$id"|"\$vocabulary"|"default"`)

// TestOracleSuite compares Check with the official tests of JSON Schema, which are in the module of the library. A
// schema of the tests is the schema of a parameter here.
func TestOracleSuite(t *testing.T) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/google/jsonschema-go").Output()
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	for draft, name := range map[string]string{"draft7": "http://json-schema.org/draft-07/schema#", "draft2020-12": "https://json-schema.org/draft/2020-12/schema"} {
		files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(out)), "jsonschema", "testdata", draft, "*.json"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			var groups []struct {
				Description string
				Schema      json.RawMessage
				Tests       []struct {
					Description string
					Data        json.RawMessage
					Valid       bool
				}
			}
			text, err := os.ReadFile(file)
			if err == nil {
				err = json.Unmarshal(text, &groups)
			}
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			for _, g := range groups {
				where := filepath.Base(file) + ": " + g.Description
				s, err := tool.ParseSchema(asParameter(g.Schema, name))
				if err != nil {
					if !refused.Match(g.Schema) {
						t.Errorf("%s %s: %v", draft, where, err)
					}
					continue
				}
				for _, c := range g.Tests {
					tried++
					if _, bad := s.Verbatim().Check(map[string]json.RawMessage{"v": c.Data}); (len(bad) == 0) != c.Valid && !strings.Contains(where, "naive replacement") /* asParameter changes its enum */ {
						t.Errorf("%s %s: %s: %v, wanted valid %v", draft, where, c.Description, bad, c.Valid)
					}
				}
			}
		}
	}
	if tried < 1000 {
		t.Errorf("only %d values were checked", tried)
	}
}

var ownReference = regexp.MustCompile(`("\$ref": ")#(/|")`)

// asParameter returns the schema of an object whose property v has the given schema.
func asParameter(schema json.RawMessage, draft string) json.RawMessage {
	text := string(schema)
	if !strings.Contains(text, `"$id"`) { // an id begins another document, in which references need no path
		text = ownReference.ReplaceAllString(text, "$1#/properties/v$2")
	}
	return json.RawMessage(fmt.Sprintf(`{"$schema":%q,"type":"object","properties":{"v":%s},"required":["v"]}`, draft, text))
}
