"""Pi by Spark, again and again until somebody says that it is enough; it says on how many executors. /tmp/slow: each task takes
seconds, so that Spark wants more executors; /tmp/rest: none is asked for."""
import os
import random
import time

from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
sc = spark.sparkContext


def inside(_):
    return os.environ["SPARK_EXECUTOR_ID"], random.random() ** 2 + random.random() ** 2 < 1


def after(seconds):
    def wait(part):
        time.sleep(seconds)
        return part
    return wait


while True:
    while os.path.exists("/tmp/rest") and not os.path.exists("/tmp/end"):
        time.sleep(0.5)
    slow = 3 if os.path.exists("/tmp/slow") else 0
    got = sc.parallelize(range(40000), 8).mapPartitions(after(slow)).map(inside).collect()
    print("Pi is roughly", 4 * sum(i for _, i in got) / len(got), "by executors", *sorted({int(e) for e, _ in got}), flush=True)
    if os.path.exists("/tmp/end"):
        break
    time.sleep(0.5)
spark.stop()
