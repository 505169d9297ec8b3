package snippets

import (
	"slices"
	"strconv"
	"strings"
	"unicode"

	"toolhost.dev/plugins/snippet/library"
	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tool"
)

// Limits on the fields of a snippet.
const (
	maxName        = 200 // in characters
	maxCode        = 1 << 20
	maxDescription = 4000 // in characters
	maxTags        = 50
	maxWord        = 50 // maximal length of a tag or a language in characters
)

func checkName(name string) (string, error) {
	name = strings.TrimSpace(name)
	switch n := len([]rune(name)); {
	case n == 0:
		return "", sdk.Errorf(tool.InvalidArguments, "The name is empty. Give one that describes what the code does.")
	case n > maxName:
		return "", sdk.Errorf(tool.InvalidArguments, "The name has %d characters, more than %d. Shorten it and put the rest in the description.", n, maxName)
	case strings.ContainsFunc(name, unicode.IsControl):
		return "", sdk.Errorf(tool.InvalidArguments, "The name %q has control characters. Leave them out.", name)
	case number(name):
		return "", sdk.Errorf(tool.InvalidArguments, "The name %q is a number, which would be taken for an id. Give one with a letter in it.", name)
	}
	return name, nil
}

func number(s string) bool {
	return strings.Trim(s, "0123456789") == ""
}

// checkRef returns a reference to a snippet by name or ID. A name that consists of digits counts as an ID.
func checkRef(name string, id int64) (library.Ref, error) {
	name = strings.TrimSpace(name)
	switch {
	case name == "" && id == 0:
		return library.Ref{}, sdk.Errorf(tool.InvalidArguments, "No snippet is named. Give its name or its id; snippet_list shows both.")
	case name != "" && id != 0:
		return library.Ref{}, sdk.Errorf(tool.InvalidArguments, "Give the name or the id, not both.")
	case name == "":
		return library.Ref{ID: id}, nil
	case number(name):
		id, err := strconv.ParseInt(name, 10, 64)
		if err != nil || id == 0 {
			return library.Ref{}, sdk.Errorf(tool.InvalidArguments, "%s is not an id. snippet_list shows names and ids.", name)
		}
		return library.Ref{ID: id}, nil
	}
	return library.Ref{Name: name}, nil
}

// checkWord checks a tag or a language and converts it to lower case.
func checkWord(what, word string) (string, error) {
	word = strings.ToLower(strings.TrimSpace(word))
	if n := len([]rune(word)); n > maxWord {
		return "", sdk.Errorf(tool.InvalidArguments, "The %s has %d characters, more than %d. Give a shorter one.", what, n, maxWord)
	}
	if strings.ContainsFunc(word, unicode.IsControl) {
		return "", sdk.Errorf(tool.InvalidArguments, "The %s %q has control characters. Leave them out.", what, word)
	}
	return word, nil
}

// checkTags checks tags. One string may contain several tags separated by commas. The result is nil only if given is
// nil.
func checkTags(given []string) ([]string, error) {
	if given == nil {
		return nil, nil
	}
	tags := []string{}
	for _, g := range given {
		for tag := range strings.SplitSeq(g, ",") {
			tag, err := checkWord("tag", tag)
			if err != nil {
				return nil, err
			}
			if tag == "" || slices.Contains(tags, tag) {
				continue
			}
			if tags = append(tags, tag); len(tags) > maxTags {
				return nil, sdk.Errorf(tool.InvalidArguments, "There are more than %d tags. Keep those that somebody would filter by.", maxTags)
			}
		}
	}
	return tags, nil
}
