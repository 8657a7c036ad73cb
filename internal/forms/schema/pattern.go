package schema

import (
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// pattern is a compiled regular expression with its cost.
type pattern struct {
	*regexp.Regexp
	program int // instructions, rounded up
}

// patternSteps returns the cost of matching n bytes. The engine takes about 7 ns for each
// instruction at each byte; a step is sixteen times that.
func patternSteps(re jsonschema.Regexp, n int) int64 {
	program := maxProgram
	if p, ok := re.(*pattern); ok {
		program = p.program
	}
	return int64(1+program/2) * int64(1+n/8)
}

const (
	// regexSteps is the most steps to parse 8 bytes of a regular expression; parseSteps, to parse
	// an instruction of [parseCost].
	regexSteps, parseSteps = 128, 16

	classCost = 256 // cost of a Unicode class, whose hundreds of ranges are copied

	// lastFold is the last character with another case. The parser folds each character of a range,
	// foldsPerInstruction of them in the time of an instruction.
	lastFold, foldsPerInstruction = 0x1e943, 16

	runesPerInstruction = 25 // range bounds in the memory of an instruction
)

// parseCost returns an upper bound, in instructions, for the cost of parsing s besides that for its
// length: few bytes can describe a Unicode table, or a case-folded range of 100,000 characters.
func parseCost(s string) int {
	sum := classCost * (strings.Count(s, `\p`) + strings.Count(s, `\P`))
	if !foldFlag.MatchString(s) {
		return sum
	}
	for _, after, found := strings.Cut(s, "-"); found; _, after, found = strings.Cut(after, "-") {
		last, _ := utf8.DecodeRuneInString(after)
		if strings.HasPrefix(after, `\x{`) {
			last = lastFold // upper bound, without parsing it
		}
		sum += int(min(last, lastFold) / foldsPerInstruction)
	}
	return sum
}

var foldFlag = regexp.MustCompile(`\(\?[imsU-]*i`) // matches the flag i

// patternError is the rule that a regular expression breaks. It omits the expression, which is part
// of the document in format regex.
type patternError string

func (e patternError) Error() string { return string(e) }

const (
	errNotRE2  patternError = "must be a regular expression that RE2 understands"
	errTooMany patternError = "must be smaller: the schema's regular expressions take too many " +
		"instructions together"
	regexOfAtMost = "must be a regular expression of at most "
)

var (
	errTooLong  = patternError(regexOfAtMost + strconv.Itoa(maxPattern) + " bytes")
	errTooLarge = patternError(regexOfAtMost + strconv.Itoa(maxProgram) +
		" instructions, of which classes of characters count for many")
)

// engine is the compiler's regexp engine, with a budget until ready; from then on it is immutable.
type engine struct {
	left  int // instructions
	ready bool
}

func (e *engine) compilePattern(s string) (jsonschema.Regexp, error) {
	if len(s) > maxPattern {
		return nil, errTooLong
	}
	size := parseCost(s)
	if size > maxProgram {
		return nil, errTooLarge
	}
	parsed, err := syntax.Parse(s, syntax.Perl)
	if err != nil {
		return nil, errNotRE2
	}
	if size += program(parsed); size > maxProgram {
		return nil, errTooLarge
	}
	if e.ready {
		return nil, nil // only the error is used
	}
	if e.left -= size; e.left < 0 {
		return nil, errTooMany
	}
	re, err := regexp.Compile(s)
	if err != nil {
		return nil, errNotRE2
	}
	return &pattern{re, size}, nil
}

// program returns an upper bound of the compiled size of re, or more than maxProgram. The parser
// limits the height of re, and with it this recursion, to 1000.
func program(re *syntax.Regexp) int {
	sum := 2
	for _, sub := range re.Sub {
		sum += program(sub)
		if sum > maxProgram {
			return sum
		}
	}
	switch re.Op {
	case syntax.OpLiteral:
		sum += len(re.Rune)
	case syntax.OpCharClass:
		sum += len(re.Rune) / runesPerInstruction // ranges are part of the program
	case syntax.OpRepeat:
		sum *= max(re.Min, re.Max, 1)
	}
	return sum
}

// CheckPattern returns an error if a regular expression cannot be compiled here.
func CheckPattern(s string) error {
	_, err := (&engine{ready: true}).compilePattern(s)
	return err
}
