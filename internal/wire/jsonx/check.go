package jsonx

import (
	"slices"
	"strconv"
	"sync"
)

// Check returns a *[SyntaxError] unless data is exactly one JSON value of RFC 8259, with optional
// white space around it, in valid UTF-8 without escaped lone surrogates, without duplicate member
// names (compared after unescaping), nested no deeper than [MaxDepth].
//
// Check makes one pass in linear time for any input, without recursion. It allocates only for
// objects with more than 16 members or an escaped name, and then mostly from a pool.
func Check(data []byte) error {
	s := scanners.Get().(*scanner)
	defer s.returnToPool()
	return s.checkDocument(data)
}

// CheckMembers combines [Check] with [Members], without searching the members of a small object
// again. If the document is not an object it does not call f.
func CheckMembers(data []byte, f func(key, value []byte) error) error {
	s := scanners.Get().(*scanner)
	defer s.returnToPool()
	if err := s.checkDocument(data); err != nil {
		return err
	}
	if s.top.more {
		return Members(data, f)
	}
	for _, m := range s.top.members[:s.top.count] {
		if err := f(slices.Clip(m.name.bytesIn(data)),
			slices.Clip(m.value.bytesIn(data))); err != nil {
			return err
		}
	}
	return nil
}

// A scanner is too large for the initial stack of a goroutine.
var scanners = sync.Pool{New: func() any { return &scanner{names: newNameSet()} }}

type scanner struct {
	data   []byte
	depth  int
	frames [MaxDepth]frame
	names  nameSet
	top    topMembers
}

// topMembers are the positions of the members of a top-level object.
type topMembers struct {
	members [8]topMember
	count   int
	more    bool // further or escaped names: use Members
}

type topMember struct{ name, value span }

func (t *topMembers) beginMember(name span, escaped bool, value int) {
	if escaped || t.count == len(t.members) {
		t.more = true
	}
	if !t.more {
		t.members[t.count] = topMember{name, span{start: int32(value)}}
		t.count++
	}
}

func (t *topMembers) endMember(i int) {
	if !t.more && t.count > 0 {
		t.members[t.count-1].value.end = int32(i)
	}
}

func (s *scanner) checkDocument(data []byte) error {
	if len(data) > MaxSize {
		return syntaxError(MaxSize, "document too long")
	}
	s.data = data
	return s.scanDocument()
}

func (s *scanner) returnToPool() {
	s.data = nil
	s.names.reset()
	scanners.Put(s)
}

type frame struct {
	object bool
	names  scope
}

// scanDocument reads one value in each iteration, then closing brackets and separators.
func (s *scanner) scanDocument() error {
	s.depth, s.top.count, s.top.more = 0, 0, false
	i := skipSpace(s.data, 0)
	for {
		opened, err := false, error(nil)
		if i, opened, err = s.beginValue(i); err != nil {
			return err
		}
		if opened {
			continue
		}
		done := false
		if i, done, err = s.finishValue(i); err != nil || done {
			return err
		}
	}
}

// beginValue reads the value at i. If it opens a non-empty array or object, next is the position of
// the first value in it; otherwise the position after the value.
func (s *scanner) beginValue(i int) (next int, opened bool, err error) {
	data := s.data
	if i >= len(data) {
		return i, false, syntaxError(i, "unexpected end")
	}
	switch c := data[i]; c {
	case '"':
		end, _, reason := checkString(data, i+1)
		if reason != "" {
			return end, false, syntaxError(end, reason)
		}
		return end, false, nil
	case '{', '[':
		if s.depth == MaxDepth {
			return i, false, syntaxError(i, reasonDepth)
		}
		f := &s.frames[s.depth]
		s.depth++
		f.object = c == '{'
		f.names = s.names.openScope(i)
		i = skipSpace(data, i+1)
		if i < len(data) && data[i] == c+2 { // ']' is '['+2, '}' is '{'+2
			s.depth--
			return i + 1, false, nil
		}
		if f.object {
			i, err = s.scanName(f, i)
		}
		return i, true, err
	case 't':
		return s.scanLiteral(i, "true")
	case 'f':
		return s.scanLiteral(i, "false")
	case 'n':
		return s.scanLiteral(i, "null")
	}
	if c := data[i]; c != '-' && !isDigit(c) {
		return i, false, syntaxError(i, "unexpected "+strconv.QuoteRune(rune(c)))
	}
	end, ok := checkNumber(data, i)
	if !ok {
		return end, false, syntaxError(end, "malformed number")
	}
	return end, false, nil
}

// finishValue reads what follows the value that ended before i: closing brackets, then the comma
// before the next value, whose position it returns, or the end of the document.
func (s *scanner) finishValue(i int) (next int, done bool, err error) {
	data := s.data
	for {
		if s.depth == 1 {
			s.top.endMember(i)
		}
		i = skipSpace(data, i)
		if s.depth == 0 {
			if i < len(data) {
				return i, false, syntaxError(i, "text after the value")
			}
			return i, true, nil
		}
		if i >= len(data) {
			return i, false, syntaxError(i, "unexpected end")
		}
		f := &s.frames[s.depth-1]
		switch c := data[i]; {
		case c == ',':
			i = skipSpace(data, i+1)
			if f.object {
				i, err = s.scanName(f, i)
			}
			return i, false, err
		case c == '}' && f.object:
			s.names.closeScope(f.names)
		case c == ']' && !f.object:
		default:
			return i, false, syntaxError(i, "missing comma or closing bracket")
		}
		s.depth--
		i++
	}
}

func (s *scanner) scanName(f *frame, i int) (next int, err error) {
	data := s.data
	if i >= len(data) || data[i] != '"' {
		return i, syntaxError(i, "missing member name")
	}
	end, escaped, reason := checkString(data, i+1)
	if reason != "" {
		return end, syntaxError(end, reason)
	}
	name := span{int32(i + 1), int32(end - 1)}
	if !s.names.addName(data, &f.names, name, escaped) {
		text, _ := TextBytes(data[i:end])
		return i, syntaxError(i, "duplicate member "+strconv.Quote(clip(text)))
	}
	i = skipSpace(data, end)
	if i >= len(data) || data[i] != ':' {
		return i, syntaxError(i, "missing colon")
	}
	i = skipSpace(data, i+1)
	if s.depth == 1 {
		s.top.beginMember(name, escaped, i)
	}
	return i, nil
}

func (s *scanner) scanLiteral(i int, want string) (next int, opened bool, err error) {
	if len(s.data)-i < len(want) || string(s.data[i:i+len(want)]) != want {
		return i, false, syntaxError(i, "malformed literal")
	}
	return i + len(want), false, nil
}
