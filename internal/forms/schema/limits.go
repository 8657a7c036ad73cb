package schema

// Limits bounds what a schema may cost to compile and to apply. The zero value of each field
// selects its default.
type Limits struct {
	// MaxBytes is the largest schema, in bytes. Default 256 KiB: the largest schemas published by
	// tool authors are a tenth of it.
	MaxBytes int
	// MaxSubschemas is how many subschemas a schema may hold. Default 2000. The compiler's
	// bookkeeping is quadratic in it.
	MaxSubschemas int
	// MaxSteps is how many steps a whole document may take. Default 2.5 million, about a fifth of a
	// second at worst: matching patterns, as most other steps take far less than 100 ns. A value of
	// a plain kind is one or two, so that is an array of a million numbers; a pattern of 100
	// instructions, as for an address or a name, may go over 300 KB of text.
	MaxSteps int
	// BoundIntegers takes for integers only those that decoders take: spelled with an exponent, an
	// integer has at most 21 digits. Without it a number of any size without a fraction is one, as
	// in JSON Schema.
	BoundIntegers bool
}

const (
	defaultMaxBytes      = 256 << 10
	defaultMaxSubschemas = 2000
	defaultMaxSteps      = 2_500_000

	// maxInPlaceDepth bounds a chain of in-place applicators ($ref to $ref, allOf in anyOf), and
	// with it the stack of a walk. People write single digits.
	maxInPlaceDepth = 64

	// maxPattern is the longest regular expression, in bytes, and maxProgram the largest compiled
	// one, in instructions: counted repetition turns a short pattern into a long program
	// (x{1000}{…}), and matching costs program size times text length.
	maxPattern, maxProgram = 1 << 10, 4 << 10

	// maxPrograms is what all regular expressions of a schema may take together, in instructions of
	// about 100 bytes. Each counts twice, as the compiler first checks and then compiles it.
	maxPrograms = 200 << 10

	// maxNestedValues is how many arrays and objects an enumeration may hold. The compiler compares
	// them all with each other if they are made to look alike to it; people enumerate strings.
	maxNestedValues = 100

	// maxTypes is how many types a list may name: JSON Schema has seven.
	maxTypes = 10

	// maxExponent and maxDigits bound a number. Validation is exact, so 1e1000000 would be a number
	// of a million digits.
	maxExponent, maxDigits = 400, 800

	// maxCount is what a length or item count that a schema names must be below; more than any
	// document holds. Its type is fixed, as it does not fit an int of 32 bits.
	maxCount int64 = 1 << 31
)

func (l Limits) withDefaults() Limits {
	l.MaxBytes = orDefault(l.MaxBytes, defaultMaxBytes)
	l.MaxSubschemas = orDefault(l.MaxSubschemas, defaultMaxSubschemas)
	l.MaxSteps = orDefault(l.MaxSteps, defaultMaxSteps)
	return l
}

func orDefault(n, fallback int) int {
	if n <= 0 {
		return fallback
	}
	return n
}
