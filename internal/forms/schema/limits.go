package schema

import "cmp"

// Limits bounds the cost of compiling and applying a schema. Zero fields have defaults.
type Limits struct {
	// MaxBytes limits the schema. Default 256 KiB, ten times the largest published schemas.
	MaxBytes int
	// MaxSubschemas limits the subschemas, in which the compiler is quadratic. Default 2000.
	MaxSubschemas int
	// MaxSteps limits the steps for a document. Default 2.5 million, which take a fifth of a second
	// at worst (patterns). They suffice for an array of a million numbers, or for matching 300 KB
	// of text with a pattern of 100 instructions, such as one for an address.
	MaxSteps int
	// BoundIntegers accepts only integers that decoders accept: those with an exponent have at most
	// 21 digits. Otherwise any number without a fraction is an integer, as in JSON Schema.
	BoundIntegers bool
}

const (
	defaultMaxBytes      = 256 << 10
	defaultMaxSubschemas = 2000
	defaultMaxSteps      = 2_500_000

	// maxInPlaceDepth limits chains of in-place applicators ($ref to $ref, allOf in anyOf), and
	// with it the stack of a walk. Authors use single digits.
	maxInPlaceDepth = 64

	// maxPattern limits a regular expression in bytes, and maxProgram its program in instructions:
	// x{1000}{…} has a long one, and matching costs its length times the text's.
	maxPattern, maxProgram = 1 << 10, 4 << 10

	// maxPrograms limits all regular expressions of a schema, in instructions of about 100 bytes.
	// Each counts twice, because the compiler first checks and then compiles it.
	maxPrograms = 200 << 10

	// maxNestedValues limits the nested values of an enumeration, which may be compared pairwise.
	maxNestedValues = 100

	maxTypes = 10 // in a list; JSON Schema has seven

	// maxExponent and maxDigits limit numbers: validation is exact, 1e1000000 has a million digits.
	maxExponent, maxDigits = 400, 800

	maxCount int64 = 1 << 31 // for lengths and counts in a schema; exceeds 32-bit int
)

func (l Limits) withDefaults() Limits {
	l.MaxBytes = cmp.Or(max(l.MaxBytes, 0), defaultMaxBytes)
	l.MaxSubschemas = cmp.Or(max(l.MaxSubschemas, 0), defaultMaxSubschemas)
	l.MaxSteps = cmp.Or(max(l.MaxSteps, 0), defaultMaxSteps)
	return l
}
