package schema

import "cmp"

// Limits bounds what a schema may cost to compile and to apply. The zero value of each field
// selects its default.
type Limits struct {
	// MaxBytes is the largest schema, in bytes. Default 256 KiB: the largest schemas published by
	// tool authors are a tenth of it.
	MaxBytes int
	// MaxSubschemas bounds the subschemas, in which the compiler is quadratic. Default 2000.
	MaxSubschemas int
	// MaxSteps bounds the steps of a whole document. Default 2.5 million, at worst (patterns) about
	// a fifth of a second. That is an array of a million numbers, or 300 KB of text for a pattern
	// of 100 instructions, as for an address or a name.
	MaxSteps int
	// BoundIntegers accepts only integers that decoders accept: spelled with an exponent, at most
	// 21 digits. Without it any number without a fraction is one, as in JSON Schema.
	BoundIntegers bool
}

const (
	defaultMaxBytes      = 256 << 10
	defaultMaxSubschemas = 2000
	defaultMaxSteps      = 2_500_000

	// maxInPlaceDepth bounds a chain of in-place applicators ($ref to $ref, allOf in anyOf), and
	// with it the stack of a walk. People write single digits.
	maxInPlaceDepth = 64

	// maxPattern bounds a regular expression, in bytes, and maxProgram the compiled one, in
	// instructions: x{1000}{…} is a long program, and matching costs its size times the text.
	maxPattern, maxProgram = 1 << 10, 4 << 10

	// maxPrograms bounds all regular expressions of a schema, in instructions of about 100 bytes.
	// Each counts twice, as the compiler first checks and then compiles it.
	maxPrograms = 200 << 10

	// maxNestedValues bounds the arrays and objects of an enumeration, which the compiler may
	// compare with each other.
	maxNestedValues = 100

	// maxTypes bounds a list of types: JSON Schema has seven.
	maxTypes = 10

	// maxExponent and maxDigits bound a number: validation is exact, and 1e1000000 has a million
	// digits.
	maxExponent, maxDigits = 400, 800

	// maxCount bounds a length or item count in a schema. It does not fit an int of 32 bits.
	maxCount int64 = 1 << 31
)

func (l Limits) withDefaults() Limits {
	l.MaxBytes = cmp.Or(max(l.MaxBytes, 0), defaultMaxBytes)
	l.MaxSubschemas = cmp.Or(max(l.MaxSubschemas, 0), defaultMaxSubschemas)
	l.MaxSteps = cmp.Or(max(l.MaxSteps, 0), defaultMaxSteps)
	return l
}
