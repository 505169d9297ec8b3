package router

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"toolhost.dev/sdk/suggest"
	"toolhost.dev/sdk/tool"
)

// Search is a search for tools: "help --search WORDS", or the function "help" with a query.
type Search struct {
	Words     string `json:"words"`
	Namespace string `json:"namespace,omitempty"`
	// Limit is the maximum number of tools. Zero means the default.
	Limit int `json:"limit,omitempty"`
	// Schema adds the whole schema of each tool to the answer.
	Schema bool `json:"schema,omitempty"`
}

// Values of the parameter "detail" of a search.
const (
	detailSignature = "signature"
	detailSchema    = "schema"
)

// searchFlags lists the flags of "help --search", without dashes.
var searchFlags = []string{"search", "namespace", "limit", "detail"}

// isSearch reports whether words that follow "help" are a search for tools.
func isSearch(rest []word) bool {
	if len(rest) == 0 || !strings.HasPrefix(rest[0].bare, "--") {
		return false
	}
	name, _, _ := strings.Cut(rest[0].text, "=")
	return slices.Contains(searchFlags, strings.TrimPrefix(name, "--"))
}

// search routes the command "help --search WORDS". Words that belong to no flag are a part of the query.
func (c *Command) search(rest []word) *Command {
	given := make(map[string]json.RawMessage)
	var query []string
	for i := 0; i < len(rest); i++ {
		w := rest[i]
		name, value, hasValue := strings.Cut(strings.TrimPrefix(w.text, "--"), "=")
		switch {
		case !strings.HasPrefix(w.bare, "--"):
			query = append(query, w.text)
			continue
		case !slices.Contains(searchFlags, name):
			return c.refuse(tool.Errorf(tool.InvalidArguments, "help --search has no flag --%s.%s The flags are --%s. Nothing was run.", name, suggest.DidYouMean(name, searchFlags),
				strings.Join(searchFlags, ", --")))
		case name == "search" && hasValue:
			query = append(query, value)
			continue
		case name == "search":
			continue
		case !hasValue && i+1 < len(rest):
			i++
			value = rest[i].text
		}
		raw, _ := json.Marshal(value) // error ignored: a string can always be encoded
		given[name] = raw
	}
	raw, _ := json.Marshal(strings.Join(query, " ")) // error ignored: a string can always be encoded
	given["query"] = raw
	return c.searchWith(given)
}

// searchWith sets the search from named arguments. A number can also be a string.
func (c *Command) searchWith(given map[string]json.RawMessage) *Command {
	out := new(Search)
	for _, name := range slices.Sorted(maps.Keys(given)) {
		var text string
		if json.Unmarshal(given[name], &text) != nil {
			text = string(given[name])
		}
		bad := ""
		switch name {
		case "query":
			out.Words = text
		case "namespace":
			out.Namespace = strings.TrimPrefix(strings.TrimSpace(text), "field:")
		case "limit":
			n, err := strconv.Atoi(text)
			if err != nil || n < 1 {
				bad = "a number of at least 1"
			}
			out.Limit = n
		case "detail":
			if out.Schema = text == detailSchema; !out.Schema && text != detailSignature {
				bad = detailSignature + " or " + detailSchema
			}
		default:
			bad = "left out: a search has only query, namespace, limit and detail"
		}
		if bad != "" && text != "null" {
			return c.refuse(tool.Errorf(tool.InvalidArguments, "The value %q of %s is not valid. It must be %s. Nothing was run.", shorten(text), name, bad))
		}
	}
	c.Layer, c.Name, c.IsHelp, c.HelpVerbose, c.Rule, c.Reason, c.Search = Agent, "", true, false, RuleHelp,
		"the command searches for tools", out
	return c
}
