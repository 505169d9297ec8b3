package habit

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// globs combines the globs of included and of excluded files.
func globs(c *call) {
	var all []string
	for _, name := range []string{"glob", "include_pattern", "exclude_pattern"} {
		raw, ok := c.take(name)
		if !ok {
			continue
		}
		list, ok := texts(raw)
		if !ok {
			c.args[name] = raw // keep the argument unchanged, because the tool refuses it
			return
		}
		for _, glob := range list {
			if name == "exclude_pattern" {
				glob = "!" + glob
			}
			all = append(all, glob)
		}
	}
	if len(all) > 0 {
		c.set("glob", all)
	}
}

// texts returns the strings of a list, of a list in JSON text, or of a single string. It omits an empty
// string.
func texts(raw json.RawMessage) (list []string, ok bool) {
	if json.Unmarshal(raw, &list) == nil {
		return list, true
	}
	var text string
	if json.Unmarshal(raw, &text) != nil {
		return nil, false
	}
	if json.Unmarshal([]byte(text), &list) != nil && text != "" {
		list = []string{text}
	}
	return list, true
}

// letterCase converts the parameter for case-sensitive search, which is the opposite of ignore_case.
func letterCase(c *call) {
	if v, ok := c.truth("case_sensitive"); ok {
		c.set("ignore_case", !v)
	}
}

// anyCase converts a request to ignore case to a glob that ignores case. A request to respect case needs no conversion,
// because the tool respects case.
func anyCase(c *call) {
	if v, ok := c.truth("case_sensitive"); ok && !v {
		if raw, given := c.args["pattern"]; given {
			delete(c.args, "pattern")
			c.set("pattern", insensitive(unquoted(raw)))
		}
	}
}

// insensitive returns a glob that ignores the case of ASCII letters, except inside brackets.
func insensitive(glob string) json.RawMessage {
	var out []rune
	brackets, escaped := false, false
	for _, r := range glob {
		letter := r|0x20 >= 'a' && r|0x20 <= 'z'
		switch {
		case letter && !brackets && !escaped:
			out = append(out, '[', r|0x20, r&^0x20, ']')
		default:
			out = append(out, r)
		}
		brackets = !escaped && (r == '[' || brackets && r != ']')
		escaped = r == '\\' && !escaped
	}
	raw, _ := json.Marshal(string(out)) // ignore the error: a string can be encoded
	return raw
}

// names converts a request to return only file names.
func names(c *call) {
	if v, ok := c.truth("names_only"); ok && v {
		c.set("output_mode", "files_with_matches")
	}
}

func fixed(c *call) {
	if v, ok := c.truth("fixed_strings"); ok && v {
		c.set("dialect", "fixed")
	}
}

// regexps converts the parameter that decides whether the pattern is a regular expression or plain text.
func regexps(c *call) {
	if v, ok := c.truth("is_regexp"); ok && !v {
		c.set("dialect", "fixed")
	}
}

// perFile renames the parameter for the maximum number of matches in each file. The value null means no limit.
func perFile(c *call) {
	if raw, ok := c.take("max_matches_per_file"); ok && string(raw) != "null" {
		c.set("max_count", raw)
	}
}

// ignored converts a list of names to omit from a listing.
func ignored(c *call) {
	raw, ok := c.take("ignore")
	if !ok {
		return
	}
	list, ok := texts(raw)
	if !ok {
		c.args["ignore"] = raw // keep the argument unchanged, because the tool refuses it
		return
	}
	for i := range list {
		list[i] = strings.TrimSuffix(strings.TrimPrefix(strings.TrimSuffix(list[i], "/**"), "**/"), "/")
	}
	switch {
	case len(list) == 1 && list[0] != "":
		c.set("pattern", "!"+list[0])
	case len(list) > 1:
		c.set("pattern", "!{"+strings.Join(list, ",")+"}")
	}
}

// ignoring converts the parameters that decide whether ignored files are searched.
func ignoring(c *call) {
	if raw, ok := c.take("file_filtering_options"); ok {
		var opts Args
		if json.Unmarshal([]byte(unquoted(raw)), &opts) != nil {
			c.fail("parameter \"file_filtering_options\" is not an object")
		}
		if v, ok := opts["respect_git_ignore"]; ok {
			c.set("respect_git_ignore", v)
		}
	}
	if v, ok := c.truth("respect_git_ignore"); ok && !v {
		c.set("no_ignore", true)
	}
}

// first drops an offset of 0 or 1, which means the beginning.
func first(c *call) {
	if raw, ok := c.args["offset"]; ok && slices.Contains([]string{"0", "1"}, unquoted(raw)) {
		delete(c.args, "offset")
	}
}

// depth converts the depth of a directory listing. A depth above 1 lists the whole tree.
func depth(c *call) {
	if n, ok := c.integer("depth"); ok && n > 1 {
		c.set("recursive", true)
	}
}

// questions converts a list of questions.
func questions(c *call) {
	raw, ok := c.take("questions")
	if !ok {
		return
	}
	c.drop("answers", "annotations", "metadata", "autoResolutionMs") // drop members that another program adds to the questions
	var all []struct {
		Question, Type        string
		Options               []json.RawMessage
		MultiSelect, Multiple bool
	}
	if err := json.Unmarshal([]byte(unquoted(raw)), &all); err != nil || len(all) == 0 {
		c.fail("parameter \"questions\" is not a list of questions")
		return
	}
	var out []map[string]any
	for _, q := range all {
		one := map[string]any{"question": q.Question}
		var labels []string
		for _, o := range q.Options {
			var option struct{ Label, Description string }
			if json.Unmarshal(o, &option) != nil {
				option.Label = unquoted(o)
			}
			labels = append(labels, option.Label)
			if option.Description != "" {
				one["question"] = fmt.Sprintf("%s\n%s: %s", one["question"], option.Label, option.Description)
			}
		}
		if q.Type == "yesno" && len(labels) == 0 {
			labels = []string{"Yes", "No"}
		}
		if len(labels) > 0 {
			one["options"], one["free_text"] = labels, true // other programs also accept answers that are not options
		}
		if q.MultiSelect || q.Multiple {
			one["multiple"] = true
		}
		out = append(out, one)
	}
	if len(out) == 1 {
		for name, v := range out[0] {
			c.set(name, v)
		}
		return
	}
	c.set("questions", out)
}
