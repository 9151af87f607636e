package tool

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// mostVisits is how often a check may look at a value with a piece of its schema: a second of work where each look ends
// with an error. It may look at each value of a large document visitsEach times. Schemas come from tool servers and
// values from the model. Where two pieces refer to a third, what that one does is done twice, and so on at each piece
// below: a few hundred bytes can ask for more than any machine does. So the work is counted first.
const (
	mostVisits = 1 << 18
	visitsEach = 3
)

// endless is the cost of what is far too much. A sum of such costs is still a number.
const endless = 1e18

var (
	errCostly = fmt.Errorf("the schema asks for more than %d checks", mostVisits)
	errCircle = errors.New("it refers to itself for the same value")
	errScoped = errors.New("$dynamicRef and $recursiveRef are not supported")
)

// checker is a compiled schema and what is known of the work that it makes. It never changes.
type checker struct {
	*jsonschema.Schema
	pieces map[*jsonschema.Schema]*piece
	// all has each piece once.
	all cost
	// shared is true where pieces are referred to more than once: the work may be more than all of them at each value.
	shared bool
	// lists is true where the check makes lists of what it has not looked at yet.
	lists bool
}

// piece is a schema within a schema.
type piece struct {
	// cost is what the piece costs at a value that holds no others.
	cost
	// same are the pieces that look at the same value, items those that may look at any item of an array.
	same, items []*jsonschema.Schema
}

// cost is work: visits, and how many instructions of patterns look at each byte of a text.
type cost struct{ visits, scan float64 }

func (c *cost) add(d cost) {
	c.visits, c.scan = min(c.visits+d.visits, endless), min(c.scan+d.scan, endless)
}

// of is the work at a text of so many bytes.
func (c cost) of(bytes int) float64 { return c.visits + c.scan*float64(bytes)/scanned }

// newChecker works out what a schema costs. It refuses one that would never end, and one of which that is not known.
func newChecker(s *jsonschema.Schema) (*checker, error) {
	c := &checker{Schema: s, pieces: map[*jsonschema.Schema]*piece{}}
	open := map[*jsonschema.Schema]bool{}
	for todo := []*jsonschema.Schema{s}; len(todo) > 0; {
		next := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if c.pieces[next] != nil {
			c.shared = true
			continue
		}
		if err := c.add(next, open, &todo); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// add adds a piece and those that look at the same value; todo gets those that look at what it holds. open has the
// pieces that are being added.
func (c *checker) add(s *jsonschema.Schema, open map[*jsonschema.Schema]bool, todo *[]*jsonschema.Schema) error {
	switch {
	case open[s]:
		return errCircle
	case c.pieces[s] != nil:
		c.shared = true
		return nil
	case s.DynamicRef != nil || s.RecursiveRef != nil:
		return errScoped
	}
	open[s] = true
	defer delete(open, s)
	p := &piece{cost: ownCost(s), same: samePlace(s), items: anyItem(s)}
	c.all.add(p.cost)
	for pattern := range s.PatternProperties {
		c.all.scan += sizeOf(pattern)
	}
	c.lists = c.lists || s.UnevaluatedItems != nil || s.UnevaluatedProperties != nil
	for _, same := range p.same {
		if err := c.add(same, open, todo); err != nil {
			return err
		}
		p.cost.add(c.pieces[same].cost)
	}
	c.pieces[s] = p
	*todo = append(*todo, insides(s)...)
	return nil
}

func ownCost(s *jsonschema.Schema) cost {
	own := cost{visits: 1}
	if s.Enum != nil {
		own.visits += float64(len(s.Enum.Values))
	}
	if s.Pattern != nil {
		own.scan = sizeOf(s.Pattern)
	}
	return own
}

// samePlace are the pieces of a schema that look at the same value as it does.
func samePlace(s *jsonschema.Schema) []*jsonschema.Schema {
	list := slices.Concat([]*jsonschema.Schema{s.Ref, s.Not, s.If, s.Then, s.Else}, s.AllOf, s.AnyOf, s.OneOf,
		slices.Collect(maps.Values(s.DependentSchemas)))
	for _, other := range s.Dependencies {
		list = append(list, schemaIn(other))
	}
	return present(list)
}

// insides are the pieces of a schema that look at what its value holds.
func insides(s *jsonschema.Schema) []*jsonschema.Schema {
	items, _ := s.Items.([]*jsonschema.Schema)
	return slices.Concat(slices.Collect(maps.Values(s.Properties)), slices.Collect(maps.Values(s.PatternProperties)),
		s.PrefixItems, items, anyItem(s), present([]*jsonschema.Schema{schemaIn(s.AdditionalProperties),
			s.PropertyNames, s.UnevaluatedProperties}))
}

// anyItem are the pieces of a schema that may look at any item of an array.
func anyItem(s *jsonschema.Schema) []*jsonschema.Schema {
	return present([]*jsonschema.Schema{schemaIn(s.Items), schemaIn(s.AdditionalItems), s.Items2020, s.Contains,
		s.UnevaluatedItems})
}

// schemaIn is the schema in a field that may have something else.
func schemaIn(field any) *jsonschema.Schema {
	s, _ := field.(*jsonschema.Schema)
	return s
}

func present(list []*jsonschema.Schema) []*jsonschema.Schema {
	return slices.DeleteFunc(list, func(s *jsonschema.Schema) bool { return s == nil })
}

// affords reports whether a value, which has so many bytes as JSON, can be checked within the limit of its size.
func (c *checker) affords(v any, bytes int) bool {
	held := values(v)
	limit := max(mostVisits, visitsEach*held)
	if !c.shared && !c.lists && c.all.visits*held+c.all.scan*float64(bytes)/scanned <= limit {
		return true
	}
	return newWork(c, limit).of(c.Schema, newNode(v)) <= limit
}

// values counts a value and all that it holds.
func values(v any) float64 {
	n := 1.0
	switch v := v.(type) {
	case map[string]any:
		for _, e := range v {
			n += values(e)
		}
	case []any:
		for _, e := range v {
			n += values(e)
		}
	}
	return n
}

// node is a value, which is not the same as an equal one elsewhere. bytes is the length of a text.
type node struct {
	fields map[string]*node
	items  []*node
	bytes  int
}

func newNode(v any) *node {
	n := &node{}
	switch v := v.(type) {
	case map[string]any:
		n.fields = make(map[string]*node, len(v))
		for name, e := range v {
			n.fields[name] = newNode(e)
		}
	case []any:
		n.items = make([]*node, len(v))
		for i, e := range v {
			n.items[i] = newNode(e)
		}
	case string:
		n.bytes = len(v)
	}
	return n
}

// look is a piece of a schema at a value.
type look struct {
	s *jsonschema.Schema
	n *node
}

// work counts the visits of a check, each look once, however often the check takes it. The count is never less than
// what the check does, which may end earlier.
type work struct {
	*checker
	limit float64
	// left is how many looks the count itself may take.
	left float64
	done map[look]float64
}

func newWork(c *checker, limit float64) *work {
	return &work{checker: c, limit: limit, left: limit, done: map[look]float64{}}
}

// of is the work of a piece at a value, or any number above the limit where it is more than that.
func (w *work) of(s *jsonschema.Schema, n *node) float64 {
	p := w.pieces[s]
	if len(n.fields)+len(n.items) == 0 {
		return p.of(n.bytes)
	}
	at := look{s, n}
	if known, ok := w.done[at]; ok {
		return known
	}
	if w.left--; w.left < 0 {
		return math.Inf(1)
	}
	sum := ownCost(s).visits
	if w.lists {
		sum += float64(len(n.fields) + len(n.items))
	}
	for _, same := range p.same {
		sum += w.of(same, n)
	}
	for name, field := range n.fields {
		if sum += w.field(s, name, field); sum > w.limit {
			return sum
		}
	}
	for i, item := range n.items {
		if sum += w.item(s, p, i, item); sum > w.limit {
			return sum
		}
	}
	w.done[at] = sum
	return sum
}

// field is the work of a schema at one field of an object.
func (w *work) field(s *jsonschema.Schema, name string, n *node) float64 {
	sum := 0.0
	if s.PropertyNames != nil {
		sum += w.pieces[s.PropertyNames].of(len(name))
	}
	for pattern := range s.PatternProperties {
		sum += sizeOf(pattern) * float64(len(name)) / scanned
	}
	if sum > w.limit {
		return sum
	}
	inside, named := s.Properties[name]
	if named {
		sum += w.of(inside, n)
	}
	for pattern, inside := range s.PatternProperties {
		if pattern.MatchString(name) {
			named = true
			sum += w.of(inside, n)
		}
	}
	if other := schemaIn(s.AdditionalProperties); other != nil && !named {
		sum += w.of(other, n)
	}
	if s.UnevaluatedProperties != nil {
		sum += w.of(s.UnevaluatedProperties, n)
	}
	return sum
}

// item is the work of a schema at one item of an array.
func (w *work) item(s *jsonschema.Schema, p *piece, i int, n *node) float64 {
	sum := 0.0
	if list, ok := s.Items.([]*jsonschema.Schema); ok && i < len(list) {
		sum += w.of(list[i], n)
	}
	if i < len(s.PrefixItems) {
		sum += w.of(s.PrefixItems[i], n)
	}
	for _, inside := range p.items {
		sum += w.of(inside, n)
	}
	return sum
}
