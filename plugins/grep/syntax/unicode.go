package syntax

import (
	"slices"
	"strings"
	"sync"
	"unicode"
)

// fromTables returns the union of several Unicode tables as a class.
func fromTables(tables ...*unicode.RangeTable) Class {
	var c Class
	add := func(lo, hi, stride rune) {
		if stride == 1 {
			c = append(c, Range{lo, hi})
			return
		}
		for r := lo; r <= hi; r += stride {
			c = append(c, Range{r, r})
		}
	}
	for _, t := range tables {
		for _, r := range t.R16 {
			add(rune(r.Lo), rune(r.Hi), rune(r.Stride))
		}
		for _, r := range t.R32 {
			add(rune(r.Lo), rune(r.Hi), rune(r.Stride))
		}
	}
	return normalize(c)
}

// These are the Unicode classes whose names have one letter.
var (
	unicodeDigit = sync.OnceValue(func() Class { return fromTables(unicode.Nd) })
	unicodeSpace = sync.OnceValue(func() Class { return fromTables(unicode.White_Space) })
	unicodeWord  = sync.OnceValue(func() Class {
		return fromTables(unicode.L, unicode.Nl, unicode.Other_Alphabetic, unicode.M, unicode.Nd, unicode.Pc,
			unicode.Join_Control)
	})
)

// Words returns the class of word characters, which is \w.
func Words() Class { return unicodeWord() }

// asciiClasses are the named classes [[:name:]], limited to ASCII.
var asciiClasses = map[string]Class{
	"alnum": runes('0', '9', 'A', 'Z', 'a', 'z'), "alpha": runes('A', 'Z', 'a', 'z'), "ascii": runes(0, 0x7F),
	"blank": runes('\t', '\t', ' ', ' '), "cntrl": runes(0, 0x1F, 0x7F, 0x7F), "digit": runes('0', '9'),
	"graph": runes('!', '~'), "lower": runes('a', 'z'), "print": runes(' ', '~'),
	"punct": runes('!', '/', ':', '@', '[', '`', '{', '~'), "space": runes('\t', '\r', ' ', ' '),
	"upper": runes('A', 'Z'), "word": runes('0', '9', 'A', 'Z', '_', '_', 'a', 'z'), "xdigit": runes('0', '9', 'A', 'F', 'a', 'f'),
}

// categories maps long names of general categories to short names. The long names have the form that the function
// loose returns.
var categories = map[string]string{
	"letter": "L", "casedletter": "LC", "uppercaseletter": "Lu", "lowercaseletter": "Ll", "titlecaseletter": "Lt", "modifierletter": "Lm",
	"otherletter": "Lo", "mark": "M", "combiningmark": "M", "nonspacingmark": "Mn", "spacingmark": "Mc", "enclosingmark": "Me", "number": "N",
	"decimalnumber": "Nd", "digit": "Nd", "letternumber": "Nl", "othernumber": "No", "punctuation": "P", "punct": "P",
	"connectorpunctuation": "Pc", "dashpunctuation": "Pd", "openpunctuation": "Ps", "closepunctuation": "Pe", "initialpunctuation": "Pi",
	"finalpunctuation": "Pf", "otherpunctuation": "Po", "symbol": "S", "mathsymbol": "Sm", "currencysymbol": "Sc", "modifiersymbol": "Sk",
	"othersymbol": "So", "separator": "Z", "spaceseparator": "Zs", "lineseparator": "Zl", "paragraphseparator": "Zp", "other": "C",
	"control": "Cc", "cntrl": "Cc", "format": "Cf", "surrogate": "Cs", "privateuse": "Co", "unassigned": "Cn",
}

// loose normalizes the name of a property: names that differ only in case and punctuation have the same result.
func loose(name string) string {
	return strings.Map(func(r rune) rune {
		switch r {
		case ' ', '_', '-':
			return -1
		}
		return unicode.ToLower(r)
	}, name)
}

// property returns the class \p{name} or \p{name=value}. If the property is unknown, the bool is false.
func property(name, value string) (Class, bool) {
	key := loose(name)
	switch {
	case value == "":
		if c, ok := binaryProperty(key); ok {
			return c, ok
		}
		if c, ok := category(key); ok {
			return c, ok
		}
		return table(unicode.Scripts, key)
	case key == "gc" || key == "generalcategory":
		return category(loose(value))
	case key == "sc" || key == "script":
		return table(unicode.Scripts, loose(value))
	}
	return nil, false
}

func category(key string) (Class, bool) {
	if short, ok := categories[key]; ok {
		key = strings.ToLower(short)
	}
	switch key {
	case "any":
		return anyRune, true
	case "assigned":
		return anyRune.minus(unassigned()), true
	case "ascii":
		return runes(0, 0x7F), true
	case "lc", "l&":
		return fromTables(unicode.Lu, unicode.Ll, unicode.Lt), true
	case "cn":
		return unassigned(), true
	case "c":
		return fromTables(unicode.C).union(unassigned()), true
	}
	return table(unicode.Categories, key)
}

var unassigned = sync.OnceValue(func() Class {
	return anyRune.minus(fromTables(unicode.L, unicode.M, unicode.N, unicode.P, unicode.S, unicode.Z, unicode.Cc,
		unicode.Cf, unicode.Co, unicode.Cs))
})

func binaryProperty(key string) (Class, bool) {
	letters := func(more ...*unicode.RangeTable) Class { return fromTables(append(more, unicode.L, unicode.Nl)...) }
	switch key {
	case "alphabetic", "alpha":
		return letters(unicode.Other_Alphabetic), true
	case "lowercase", "lower":
		return fromTables(unicode.Ll, unicode.Other_Lowercase), true
	case "uppercase", "upper":
		return fromTables(unicode.Lu, unicode.Other_Uppercase), true
	case "whitespace", "wspace", "space":
		return unicodeSpace(), true
	case "idstart", "ids", "xidstart", "xids":
		return letters(unicode.Other_ID_Start).minus(fromTables(unicode.Pattern_Syntax, unicode.Pattern_White_Space)),
			true
	case "idcontinue", "idc", "xidcontinue", "xidc":
		return letters(unicode.Other_ID_Start, unicode.Other_ID_Continue, unicode.Mn, unicode.Mc, unicode.Nd,
			unicode.Pc).
			minus(fromTables(unicode.Pattern_Syntax, unicode.Pattern_White_Space)), true
	case "math":
		return fromTables(unicode.Sm, unicode.Other_Math), true
	}
	if long, ok := emojiNames[key]; ok {
		key = long
	}
	if c, ok := emoji[key]; ok {
		return slices.Clone(c), true
	}
	return table(unicode.Properties, key)
}

func table(tables map[string]*unicode.RangeTable, key string) (Class, bool) {
	for name, t := range tables {
		if loose(name) == key {
			return fromTables(t), true
		}
	}
	return nil, false
}

// letterClass returns the class \d, \s or \w. If c is an upper-case letter, it returns the complement of the class.
func letterClass(c rune, inUnicode bool) Class {
	var out Class
	universe := anyRune
	switch {
	case !inUnicode:
		universe = anyByte
		name := map[rune]string{'d': "digit", 's': "space", 'w': "word"}[unicode.ToLower(c)]
		out = asciiClasses[name]
	case unicode.ToLower(c) == 'd':
		out = unicodeDigit()
	case unicode.ToLower(c) == 's':
		out = unicodeSpace()
	default:
		out = unicodeWord()
	}
	if unicode.IsUpper(c) {
		return universe.minus(out)
	}
	return slices.Clone(out)
}
