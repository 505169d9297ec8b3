package text

import (
	"bytes"
	"slices"
	"unicode"
	"unicode/utf8"

	"github.com/wlynxg/chardet"
)

const (
	// sampleSize is the maximum number of bytes that the detector examines. Only lines with non-ASCII bytes are
	// examined.
	sampleSize = 64 << 10
	// sure is the minimum confidence at which the detector's result is used.
	sure = 0.85
	// leastWide is the minimum number of letters at which a charset with characters of several bytes is certain.
	// leastNarrow is the minimum for all other charsets. The detector is often wrong about shorter texts.
	leastWide, leastNarrow = 4, 12
)

// detect decodes a text that is not valid UTF-8. If no charset is certain, detect returns nil.
func detect(data []byte) *Text {
	sample := sampleOf(data)
	if latin := detectLatin(sample); latin != nil {
		return latin.read(data)
	}
	var flawed *Text
	for _, c := range ranked(sample) {
		if !c.plausible(sample) {
			continue
		}
		switch t := c.read(data); {
		case t != nil && t.flaw == "":
			return t
		case flawed == nil && c != gb18030:
			flawed = t
		}
	}
	if flawed != nil {
		return flawed
	}
	for _, c := range charsets {
		if clean := c.cleanLines(sample); clean != nil && slices.Contains(ranked(clean), c) && c.plausible(clean) {
			return c.read(data)
		}
	}
	return nil
}

// cleanLines removes the lines that are invalid in a charset with characters of several bytes, because a single invalid
// byte makes the detector reject a charset. It returns nil if no line or too many lines are invalid.
func (c *charset) cleanLines(sample []byte) []byte {
	if !c.wide {
		return nil
	}
	clean := make([]byte, 0, len(sample))
	kept, removed := 0, 0
	for line := range bytes.Lines(sample) {
		decoded, err := c.codec.NewDecoder().Bytes(line)
		switch {
		case isASCII(line):
		case err != nil || bytes.ContainsRune(decoded, utf8.RuneError):
			removed++
			continue
		default:
			kept++
		}
		clean = append(clean, line...)
	}
	if removed == 0 || removed*10 > kept {
		return nil
	}
	return clean
}

// ranked returns the possible charsets of the sample, the most probable first.
func ranked(sample []byte) []*charset {
	if c := byKana(sample); c != nil {
		return []*charset{c}
	}
	var out []*charset
	best := 0.0
	for _, r := range confidences(sample) {
		i := slices.IndexFunc(charsets, func(c *charset) bool { return slices.Contains(c.detector, r.Charset) })
		if i < 0 {
			continue
		}
		if best = max(best, r.Confidence); r.Confidence >= sure && r.Confidence > best-0.1 {
			out = append(out, charsets[i])
		}
	}
	if slices.Contains(out, gbk) || slices.Contains(out, eucKR) {
		out = chineseOrKorean(sample, out)
	}
	if best < 0.5 && len(out) == 0 { // the detector does not know Arabic
		out = append(out, arabic)
	}
	if _, exact := gbk.decode(sample); !exact { // the detector does not know characters of four bytes
		if content, exact := gb18030.decode(sample); exact && frequentHan(content) {
			out = append(out, gb18030)
		}
	}
	return out
}

// frequentHan reports whether at least three quarters of the Chinese characters are among the 3755 most frequent
// characters of GB 2312.
func frequentHan(content []byte) bool {
	all, frequent := 0, 0
	encoder := gbk.codec.NewEncoder()
	for _, r := range string(content) {
		if !unicode.Is(unicode.Han, r) {
			continue
		}
		all++
		if b, err := encoder.String(string(r)); err == nil && b[0] >= 0xb0 && b[0] <= 0xd7 && b[1] >= 0xa1 {
			frequent++
		}
	}
	return frequent*4 >= all*3
}

// leastHangul is a number of Hangul syllables. A text that consists only of Hangul and has at least this number cannot
// be Chinese. The same bytes can be frequent Chinese characters, but a Chinese sentence also contains other characters.
const leastHangul = 12

// chineseOrKorean removes GBK, or both GBK and EUC-KR, from the charsets if the sample consists of Hangul in EUC-KR.
func chineseOrKorean(sample []byte, found []*charset) []*charset {
	content, exact := eucKR.decode(sample)
	if !exact {
		return found
	}
	hangul, han := 0, 0
	for _, r := range string(content) {
		switch {
		case unicode.Is(unicode.Hangul, r):
			hangul++
		case unicode.Is(unicode.Han, r):
			han++
		}
	}
	if han > 0 {
		return found
	}
	if hangul >= leastHangul {
		return []*charset{eucKR}
	}
	return slices.DeleteFunc(found, func(c *charset) bool { return c == gbk || c == eucKR })
}

// confidences calls the detector. The detector can read beyond the end of its input and has panicked on unusual input.
func confidences(sample []byte) (found []chardet.Result) {
	defer func() {
		if recover() != nil {
			found = nil
		}
	}()
	room := append(make([]byte, 0, len(sample)+8), sample...)
	return chardet.DetectAll(append(room, '\n', '\n'))
}

// sampleOf returns the lines of data with non-ASCII bytes, up to sampleSize bytes.
func sampleOf(data []byte) []byte {
	if len(data) <= sampleSize {
		return data
	}
	var out []byte
	for line := range bytes.Lines(data) {
		if !isASCII(line) {
			out = append(out, line...)
		}
		if len(out) >= sampleSize {
			break
		}
	}
	return out
}

func isASCII(data []byte) bool {
	return bytes.IndexFunc(data, func(r rune) bool { return r >= utf8.RuneSelf }) < 0
}

// byKana returns the Japanese charset of a text with kana. Kana are a better sign than the frequency of characters:
// almost every Japanese sentence has kana, and no Chinese sentence has them.
func byKana(sample []byte) *charset {
	for _, c := range []*charset{eucJP, shiftJS} {
		content, exact := c.decode(sample)
		if !exact {
			continue
		}
		hiragana, letters := 0, 0
		for _, r := range string(content) {
			switch {
			case unicode.Is(unicode.Hiragana, r):
				hiragana++
				letters++
			case r >= utf8.RuneSelf && unicode.IsLetter(r):
				letters++
			}
		}
		if hiragana >= leastWide && hiragana*5 >= letters {
			return c
		}
	}
	return nil
}

// plausible reports whether the decoded sample looks like a text in a language of the charset. Three conditions
// must hold. The sample has enough letters. Almost all non-ASCII characters are letters of the script or punctuation.
// Words have no capital letter in the middle.
func (c *charset) plausible(sample []byte) bool {
	content, _ := c.codec.NewDecoder().Bytes(sample)
	letters, foreign, odd, words := 0, 0, 0, 0
	last := rune(' ')
	for _, r := range string(content) {
		switch {
		case r < utf8.RuneSelf:
		case unicode.In(r, c.scripts...):
			if !c.wide && last >= utf8.RuneSelf && !unicode.In(last, c.scripts...) && !isTypography(last) &&
				!isBox(last) {
				return false // a symbol inside a word shows that the charset is wrong: in another charset, the same byte is a letter
			}
			letters++
			if !unicode.IsLetter(last) {
				words++
			} else if !c.wide && (isASCIILetter(last) || unicode.IsUpper(r) && unicode.IsLower(last)) {
				odd++ // a letter inside a Latin word, or a capital letter inside a word
			}
		case !isTypography(r) && !isBox(r) && (!c.wide || !isWideSign(r)):
			foreign++
		}
		last = r
	}
	least := leastNarrow
	if c.wide {
		least = leastWide
	}
	return letters >= least && foreign*20 <= letters && odd*50 <= words
}

func isASCIILetter(r rune) bool { return r|0x20 >= 'a' && r|0x20 <= 'z' }

// isTypography reports whether r is a punctuation mark or sign that occurs in texts of all languages.
func isTypography(r rune) bool {
	switch r {
	case '\u00a0', '\u00ad', '«', '»', '“', '”', '„', '‘', '’', '‚', '‹', '›', '–', '—', '…', '•', '·', '№', '€', '£',
		'§', '©', '®', '™', '°', '±', '×', '÷', '¿', '¡', '†', '‡', '‰', '\u200e', '\u200f', '\u0301',
		'،', '؛', '؟', '\u0640', '΄', '΅', 'µ', '½', '¼', '¾', '²', '³', '¹', 'ª', 'º', '¢', '¥':
		return true
	}
	return false
}

// isWideSign reports whether r is a sign of East Asian typography.
func isWideSign(r rune) bool {
	return r >= 0x2010 && r <= 0x2bff || r >= 0x3000 && r <= 0x33ff || r >= 0xff00 && r <= 0xffef ||
		unicode.In(r, unicode.Greek, unicode.Cyrillic, unicode.Hiragana, unicode.Katakana)
}

// isBox reports whether r is a box-drawing or block character. These characters occupy a quarter of KOI8-R.
func isBox(r rune) bool { return r >= 0x2500 && r < 0x25a0 }
