# JupyterHub on a login pod: each server is a Slurm job of its user. As root, for only root submits for others.
import os

c = get_config()  # noqa: F821
here, programs = os.getcwd(), "/home/judges/bin"
# Nodes come to the hub at the name of the login pod.
c.JupyterHub.hub_ip = "0.0.0.0"
c.JupyterHub.hub_connect_ip = os.uname().nodename
c.JupyterHub.bind_url = "http://:8000"
c.ConfigurableHTTPProxy.should_start = False  # the test has started it
c.ConfigurableHTTPProxy.auth_token = os.environ["JUDGE_TOKEN"]
c.JupyterHub.db_url = f"sqlite:///{here}/hub.sqlite"
c.JupyterHub.cookie_secret_file = f"{here}/cookie_secret"

c.JupyterHub.spawner_class = "batchspawner.SlurmSpawner"
c.Spawner.cmd = [f"{programs}/jupyterhub-singleuser"]
c.BatchSpawnerBase.batchspawner_singleuser_cmd = f"{programs}/batchspawner-singleuser"
c.BatchSpawnerBase.req_memory = "1G"
c.BatchSpawnerBase.req_runtime = "1:00:00"
c.BatchSpawnerBase.req_gres = "gpu:1"
# However long it waits in the queue.
c.BatchSpawnerBase.start_timeout = 600
c.Spawner.http_timeout = 600

# Of the test: whoever comes is who he says, and a program that may do everything.
c.JupyterHub.authenticator_class = "dummy"
c.Authenticator.allow_all = True
c.JupyterHub.services = [{"name": "judge", "api_token": os.environ["JUDGE_TOKEN"]}]
c.JupyterHub.load_roles = [{"name": "judge", "services": ["judge"], "scopes": ["admin:users", "admin:servers", "access:servers"]}]
