package replica
import "fmt"
func (m *machine) dump() string {
	s := ""
	for _, c := range m.clusters {
		s += fmt.Sprintf("%s: %v\n", c.id, contents(c.replica.state))
		for id, o := range c.replica.state.origins {
			for _, l := range o.layers { s += fmt.Sprintf("   %s completed %d layer %d frontier %d highest %d proven %d mism %t doubt %t clone %v\n", id, o.completed, l.epoch, l.frontier, l.highest, l.proven, l.mismatch, l.doubt, o.clone) }
		}
		s += fmt.Sprintf("   seen %d\n", c.replica.OwnEpochSeen())
	}
	return s
}
