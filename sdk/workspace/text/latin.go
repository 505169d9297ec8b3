package text

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"
)

// latinCharsets lists the charsets of Latin letters, which the detector cannot distinguish. The field "alphabets"
// contains the non-ASCII letters of each language. If all letters of a text are in one alphabet, the text most probably
// has this charset.
var latinCharsets = []struct {
	charset
	alphabets []string
}{
	{charset{name: Windows1252, codec: charmap.Windows1252}, []string{
		"äöüß", "àâæçéèêëîïôœùûü", "áéíñóúüªº", "àáâãçéêíóôõú", "àèéìíîòóùú", "åäöé", "æøåéèòôó", "áéëïíóöúüèê",
		"ðþæöáéíóúý", "àçèéíïòóúü", "äöåšž", "äöõüšž",
	}},
	{charset{name: Windows1250, codec: charmap.Windows1250}, []string{"ąćęłńóśźż", "áčďéěíňóřšťúůýž", "áäčďéíĺľňóôŕšťúýž", "áéíóöőúüű", "čćđšž", "ăâîşţ"}},
	{charset{name: Windows1254, codec: charmap.Windows1254}, []string{"çğıöşüâîûİ"}},
	{charset{name: Windows1257, codec: charmap.Windows1257}, []string{"ąčęėįšųūž", "āčēģīķļņšūž"}},
}

// leastLatin is the minimum number of non-ASCII letters at which the charset of a text is certain.
const leastLatin = 3

// detectLatin returns the charset of a text in a Latin script. If no charset has an alphabet with the text's letters,
// it returns nil. It also returns nil if several charsets match and decode the text differently.
func detectLatin(sample []byte) *charset {
	var found *charset
	var decoded string
	for i := range latinCharsets {
		c := &latinCharsets[i]
		content, exact := c.decode(sample)
		if !exact || !fits(string(content), c.alphabets) {
			continue
		}
		if found != nil && decoded != string(content) {
			return nil
		}
		if found == nil {
			found, decoded = &c.charset, string(content)
		}
	}
	return found
}

// fits reports whether all non-ASCII letters of a text are in one of the alphabets. The letters must also be
// in words with ASCII letters, as in all Latin scripts.
func fits(content string, alphabets []string) bool {
	seen := make(map[rune]int)
	letters, alone, last := 0, 0, rune(' ')
	for i, r := range content {
		switch {
		case r < utf8.RuneSelf:
		case unicode.IsLetter(r):
			seen[unicode.ToLower(r)]++
			if r == 'İ' {
				seen[unicode.ToLower(r)]--
				seen['İ']++
			}
			letters++
			next, _ := utf8.DecodeRuneInString(content[i+utf8.RuneLen(r):])
			if !isASCIILetter(last) && !isASCIILetter(next) {
				alone++
			}
		case !isTypography(r):
			return false
		case isSign(r) && unicode.IsLetter(last):
			return false // a sign inside a word is wrong: in another charset, its byte is a letter
		}
		last = r
	}
	if letters < leastLatin || alone*4 > letters {
		return false
	}
	for _, alphabet := range alphabets {
		all := true
		for r, n := range seen {
			all = all && (n == 0 || strings.ContainsRune(alphabet, r))
		}
		if all {
			return true
		}
	}
	return false
}

// isSign reports whether r is a typographic sign that usually does not follow a letter.
func isSign(r rune) bool {
	return strings.ContainsRune("±×÷¿¡²³¹½¼¾·¢¥€£§΄΅•", r)
}
