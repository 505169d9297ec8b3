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

// The following constants limit the fields of a snippet.
const (
	maxName        = 200 // maximum length in characters
	maxCode        = 1 << 20
	maxDescription = 4000 // maximum length in characters
	maxTags        = 50
	maxWord        = 50 // maximum length of a tag or a language in characters
)

func checkName(name string) (string, error) {
	name = strings.TrimSpace(name)
	switch n := len([]rune(name)); {
	case n == 0:
		return "", sdk.Errorf(tool.InvalidArguments, "The name is empty. Give a name that describes what the code does.")
	case n > maxName:
		return "", sdk.Errorf(tool.InvalidArguments, "The name has %d characters, and the limit is %d. Shorten the name and put the rest in the description.", n, maxName)
	case strings.ContainsFunc(name, unicode.IsControl):
		return "", sdk.Errorf(tool.InvalidArguments, "The name %q has control characters. Remove the control characters.", name)
	case number(name):
		return "", sdk.Errorf(tool.InvalidArguments, "The name %q is a number and could be confused with an id. Give a name with a letter in it.", name)
	}
	return name, nil
}

func number(s string) bool {
	return strings.Trim(s, "0123456789") == ""
}

// checkRef returns a reference to a snippet by name or ID. If the name consists of digits, it is treated as an ID.
func checkRef(name string, id int64) (library.Ref, error) {
	name = strings.TrimSpace(name)
	switch {
	case name == "" && id == 0:
		return library.Ref{}, sdk.Errorf(tool.InvalidArguments, "The name of the snippet is missing. Give its name or its id; snippet_list shows both.")
	case name != "" && id != 0:
		return library.Ref{}, sdk.Errorf(tool.InvalidArguments, "Both name and id are set. Give only one of the two.")
	case name == "":
		return library.Ref{ID: id}, nil
	case number(name):
		id, err := strconv.ParseInt(name, 10, 64)
		if err != nil || id == 0 {
			return library.Ref{}, sdk.Errorf(tool.InvalidArguments, "The id %s is not valid. Run snippet_list for names and ids.", name)
		}
		return library.Ref{ID: id}, nil
	}
	return library.Ref{Name: name}, nil
}

// checkWord checks a tag or a language and converts it to lower case.
func checkWord(what, word string) (string, error) {
	word = strings.ToLower(strings.TrimSpace(word))
	if n := len([]rune(word)); n > maxWord {
		return "", sdk.Errorf(tool.InvalidArguments, "The %s has %d characters, and the limit is %d. Shorten the %[1]s.", what, n, maxWord)
	}
	if strings.ContainsFunc(word, unicode.IsControl) {
		return "", sdk.Errorf(tool.InvalidArguments, "The %s %q has control characters. Remove the control characters.", what, word)
	}
	return word, nil
}

// checkTags checks a list of tags. One string of the list can contain several tags, separated by commas. The result is
// nil only if given is nil.
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
				return nil, sdk.Errorf(tool.InvalidArguments, "The snippet has more than %d tags. Keep only tags that are useful as filters.", maxTags)
			}
		}
	}
	return tags, nil
}
