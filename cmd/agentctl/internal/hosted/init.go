// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package hosted

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	urfave "github.com/urfave/cli/v2"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/hosted/objects"
)

const (
	// serverImage and agentImage are where the images are; their tag is the version of agentctl.
	serverImage = "docker.io/roster-mesh/roster-apiserver"
	agentImage  = "docker.io/roster-mesh/agent"
	// longestName leaves room for what Kubernetes adds to the name of a StatefulSet.
	longestName = 50
	// leastStorage is what etcd takes before there is any object, and as much again.
	leastStorage = "256Mi"
)

// InitCommand describes the command init to the flag library. version is that of this program, or "".
func InitCommand(g *cli.Globals, version string) *urfave.Command {
	return &urfave.Command{
		Name:        "init",
		Usage:       "make a registry",
		Subcommands: []*urfave.Command{standaloneCommand(g, version)},
		Action: func(c *urfave.Context) error {
			if c.Args().First() == "aggregated" { // as the tool of the SIG has it
				return cli.Usagef("a registry behind a Kubernetes API server is a part of the chart: helm upgrade --atomic --reset-then-reuse-values -n %s cluster-registry-controller charts/agent --set registry.enabled=true", g.Namespace)
			}
			return cli.OnlySubcommands(c)
		},
	}
}

func standaloneCommand(g *cli.Globals, version string) *urfave.Command {
	image, agent := serverImage+":"+version, agentImage+":"+version
	if version == "" {
		image, agent = "", "" // only the version that it was built with says which images go with this program
	}
	return &urfave.Command{
		Name:      "standalone",
		Usage:     "make a registry that is an API server of its own, in a namespace of another cluster",
		ArgsUsage: "NAME",
		Description: `Makes a registry in the cluster that --host-cluster-context leads to: a namespace with roster-apiserver as a
StatefulSet of one pod, a volume, a Service, and a Secret with the CA that its certificates are signed by. Then it
waits until the registry answers at its address, and writes a context NAME into the kubeconfig, with all rights in
the registry and none in the host. The context's certificate is valid for a year: the same command again writes a
new one.

The same command again completes what one that was cut off has begun, and changes nothing else. To change a flag,
agentctl delete NAME keeps the data, and agentctl init then takes them up again.

The address is that of the Service: of its load balancer; with NodePort, a node's and its port; with ClusterIP, its
own, which is reached from inside the cluster alone, unless --advertise names one that leads there.

Without --agent the registry is a list that people and programs write. With it, an agent runs beside the server, and
the registry is a cluster that agentctl join makes a member of a group; other agents reach it at the same address, at
port 7946 or at a node port of its own.

Exit code: 0 done; 3 everything is there, but the registry did not answer within --timeout; 2 a flag is wrong; 1 it
cannot be done.`,
		Flags: initFlags(image, agent),
		Action: func(c *urfave.Context) error {
			o, err := optionsOf(g, c)
			if err != nil {
				return err
			}
			return g.Run(c, o)
		},
	}
}

// initFlags are the flags of init standalone, with these images by default.
func initFlags(image, agent string) []urfave.Flag {
	return append(hostFlags(),
		&urfave.StringFlag{Name: "image", Value: image, Usage: "`IMAGE` of roster-apiserver"},
		&urfave.BoolFlag{Name: "agent", Usage: "run an agent beside it, so that the registry can be a member of a group"},
		&urfave.StringFlag{Name: "agent-image", Value: agent, Usage: "`IMAGE` of the agent"},
		&urfave.StringFlag{Name: "service-type", Value: loadBalancer, Usage: "`TYPE` of the Service: " + strings.Join(serviceTypes(), ", ")},
		&urfave.StringFlag{Name: "advertise", Usage: "`ADDRESS`, HOST or HOST:PORT, at which callers reach the registry (default: that of the Service)"},
		&urfave.StringFlag{Name: "storage", Value: "5Gi", Usage: "`SIZE` of the volume"},
		&urfave.StringFlag{Name: "storage-class", Usage: "`CLASS` of the volume (default: the cluster's default)"},
		&urfave.StringSliceFlag{Name: "apiserver-arg", Usage: "`FLAG=VALUE` for roster-apiserver standalone, such as log-level=debug; may be given several times"},
		&urfave.StringFlag{Name: "kubeconfig-out", Usage: "`FILE` to write the context to, which only you can read, instead of the kubeconfig"},
		&urfave.DurationFlag{Name: "timeout", Value: 5 * time.Minute, Usage: "how long to wait until the registry answers"},
		&urfave.BoolFlag{Name: "dry-run", Usage: "print what would be made, and write nothing; with -o yaml or json, the objects"},
	)
}

// optionsOf reads the command line.
func optionsOf(g *cli.Globals, c *urfave.Context) (*InitOptions, error) {
	place, err := placeOf(g, c)
	if err != nil {
		return nil, err
	}
	given := objects.Settings{
		Image: c.String("image"), ServiceType: c.String("service-type"), Advertise: c.String("advertise"),
		Storage: c.String("storage"), StorageClass: c.String("storage-class"), Args: c.StringSlice("apiserver-arg"),
	}
	switch {
	case c.Bool("agent") && c.String("agent-image") == "":
		return nil, cli.Usagef("--agent-image is required: this agentctl was built without a version, which would say which one")
	case c.Bool("agent"):
		given.Agent = c.String("agent-image")
	case c.IsSet("agent-image"):
		return nil, cli.Usagef("--agent-image goes with --agent")
	}
	return &InitOptions{
		Place: place, Settings: given, given: c.IsSet, Out: c.String("kubeconfig-out"), Timeout: c.Duration("timeout"), DryRun: c.Bool("dry-run"),
	}, nil
}

// Place is which registry is meant.
type Place struct {
	clusters.Access  // of the host
	objects.Registry // with its namespace there

	Named bool // the user named the namespace, which may be there already

	hostFlag bool // the user named the host by --host-cluster-context
}

// hostFlags are those that say where a registry is.
func hostFlags() []urfave.Flag {
	return []urfave.Flag{
		&urfave.StringFlag{Name: "host-cluster-context", Usage: "`CONTEXT` of the kubeconfig that leads to the cluster that the registry runs in (default: --context)"},
		&urfave.StringFlag{Name: "host-namespace", Usage: "`NAMESPACE` of the registry there (default: registry-NAME)"},
	}
}

// placeOf reads the flags that say where a registry is, and its name.
func placeOf(g *cli.Globals, c *urfave.Context) (Place, error) {
	if c.Args().Len() != 1 {
		return Place{}, cli.Usagef("%s needs one argument, the NAME of the registry", c.Command.Name)
	}
	p := Place{
		Access: clusters.AccessOf(g), Registry: objects.Registry{Name: c.Args().First(), Namespace: c.String("host-namespace")},
		Named: c.IsSet("host-namespace"),
	}
	host := c.String("host-cluster-context")
	switch {
	case g.Namespace.IsSet():
		return Place{}, cli.Usagef("--namespace is where an agent is installed; --host-namespace names the registry's")
	case host != "" && p.Context != "" && host != p.Context:
		return Place{}, cli.Usagef("--host-cluster-context and --context are different: give the first one alone")
	case host != "":
		p.Context, p.hostFlag = host, true
	}
	p.Namespace = cmp.Or(p.Namespace, "registry-"+p.Name)
	return p, nil
}

// open connects to the host, as far as that needs no request.
func (p *Place) open() (*clusters.Client, error) {
	c, err := p.Open()
	if err != nil && p.hostFlag {
		err = fmt.Errorf("--host-cluster-context: %w", err)
	}
	return c, err
}

// Validate checks what can be checked without a cluster.
func (p *Place) Validate() error {
	if wrong := validation.IsDNS1035Label(p.Name); len(wrong) > 0 || len(p.Name) > longestName {
		return cli.Usagef("NAME %q must be lower-case letters, digits and -, begin with a letter, not end with -, and have at most %d characters", p.Name, longestName)
	}
	if wrong := validation.IsDNS1123Label(p.Namespace); len(wrong) > 0 {
		return cli.Usagef("--host-namespace %q is no name of a namespace: %s", p.Namespace, wrong[0])
	}
	return nil
}

// InitOptions are what init makes.
type InitOptions struct {
	Place
	objects.Settings

	Out     string        // file for the context; "" for the kubeconfig
	Timeout time.Duration // how long to wait until the registry answers
	DryRun  bool

	given func(flag string) bool // whether the user gave it
}

// Validate checks what can be checked without a cluster.
func (o *InitOptions) Validate() error {
	if err := o.Place.Validate(); err != nil {
		return err
	}
	if err := validate(&o.Settings); err != nil {
		return err
	}
	return cli.CheckTimeout(o.Timeout)
}

// validate checks every setting.
func validate(s *objects.Settings) error {
	size, err := resource.ParseQuantity(s.Storage)
	_, wrongAddress := parseAddress(s.Advertise)
	switch {
	case s.Image == "":
		return cli.Usagef("--image is required: this agentctl was built without a version, which would say which one")
	case strings.ContainsFunc(s.Image, notImage):
		return cli.Usagef("--image %q is no name of an image", s.Image)
	case strings.ContainsFunc(s.Agent, notImage):
		return cli.Usagef("--agent-image %q is no name of an image", s.Agent)
	case !slices.Contains(serviceTypes(), s.ServiceType):
		return cli.Usagef("--service-type %q must be one of %s", s.ServiceType, strings.Join(serviceTypes(), ", "))
	case s.Advertise != "" && wrongAddress != nil:
		return cli.Usagef("--advertise %q %s", s.Advertise, wrongAddress)
	case err != nil:
		return cli.Usagef("--storage %q is no size, such as 5Gi", s.Storage)
	case size.Cmp(resource.MustParse(leastStorage)) < 0:
		return cli.Usagef("--storage %s must be at least %s", s.Storage, leastStorage)
	}
	if wrong := validation.IsDNS1123Subdomain(s.StorageClass); s.StorageClass != "" && len(wrong) > 0 {
		return cli.Usagef("--storage-class %q is no name of a StorageClass: %s", s.StorageClass, wrong[0])
	}
	for _, arg := range s.Args {
		if err := checkArg(arg); err != nil {
			return cli.Usagef("--apiserver-arg %q %s", arg, err)
		}
	}
	return nil
}

func notImage(r rune) bool { return r <= ' ' || r > '~' }

// ownArgs are the flags of the server that init gives it, or that one server in a pod has no use for.
func ownArgs() []string {
	return []string{"data-dir", "cluster-name", "listen", "ca", "peer-listen", "bundle", "until-stdin-closes"}
}

// argument is a flag of the server with its value.
var argument = regexp.MustCompile(`^([a-z]+(?:-[a-z]+)*)=[ -~]*$`)

func checkArg(arg string) error {
	parts := argument.FindStringSubmatch(arg)
	switch {
	case parts == nil:
		return errors.New("must be FLAG=VALUE, without dashes before it")
	case slices.Contains(ownArgs(), parts[1]):
		return fmt.Errorf("must not be about %s, which init sets itself", parts[1])
	}
	return nil
}
