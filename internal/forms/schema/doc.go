// Package schema compiles JSON Schemas and validates documents against them when neither side is
// trusted: a schema may come from a server a client has never met, a document from a client a
// server has never met, and both at once from the two ends of a gateway.
//
// # What is understood
//
// The dialect is 2020-12 unless $schema names an older draft (04, 06, 07, 2019-09). Formats are
// asserted, not merely noted. Patterns are RE2, which matches in linear time. $dynamicRef and
// $recursiveRef are refused: what they cost depends on the document, and tool schemas have no use
// for them.
//
// # What is never done
//
// Nothing is fetched. A reference that leaves the schema, whatever its scheme, fails [Compile] with
// an error that names it.
//
// # What is bounded
//
// A few hundred bytes of schema can describe 2^30 evaluations, through references that fan out in
// place (a0: anyOf[a1, a1], a1: anyOf[a2, a2], …) or through recursion that visits each child
// twice. The first kind is found by [Compile], which works out what a single value can cost
// ([Limits.MaxCost]). The second depends on how deep the document is, so [Schema.Validate] pays for
// each step before it takes it, and refuses the document past [Limits.MaxSteps].
//
// A refusal costs no more than an acceptance: this package has a validator of its own, which takes
// no step twice, stops at the first fault of an array or object, and makes a text only for the one
// fault that it reports. The validator of the compiler's library collects all faults, so it is used
// for schemas only.
//
// These bounds are needed because schemas come from strangers.
//
// # What is fast
//
// Most documents are checked on their bytes, see plan. Only values that a plan cannot accept are
// decoded.
//
// # One set of value rules
//
// Lengths, bounds, choices and formats have one implementation. Package form makes its fields with
// [Rules], and a compiled schema is made of the same nodes and plans.
//
// # Errors
//
// A document's fault is an [*Error], which names the offending member and the rule, never the
// value: answers must not leak into logs. When several members are at fault the same one is
// reported every time.
package schema
